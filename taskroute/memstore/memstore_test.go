package memstore_test

import (
	"testing"
	"time"

	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/taskroute/storetest"
)

func open(*testing.T) taskroute.Backend { return memstore.New(time.Now) }

func TestBackend(t *testing.T) { storetest.Run(t, open) }
