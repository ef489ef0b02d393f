package redisstore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"taskgate/taskroute"
)

// keys names everything in Redis. What is in braces decides the slot.
type keys struct{ prefix string }

// task is a string, the record.
func (k keys) task(id string) string { return k.prefix + "task:{" + id + "}" }

// part is a string, the part of that name, where it is too large for the record.
func (k keys) part(id, name string) string { return k.prefix + "part:{" + id + "}" + name }

// tomb is a string, the owner; it outlives the record.
func (k keys) tomb(id string) string { return k.prefix + "tomb:{" + id + "}" }

// leases is a sorted set of holders by deadline, ms by the server's clock. It has
// every holder that an index entry was written for: one that was not heard of yet
// by the negative of when that was.
func (k keys) leases() string { return k.prefix + "{holders}:leases" }

// gone is a sorted set of dead holders that hold nothing, by when that was found.
func (k keys) gone() string { return k.prefix + "{holders}:gone" }

// held is a sorted set of the ids that a holder runs, by rank; that of holder ""
// are the ids that anybody may run.
func (k keys) held(holder string) string { return k.prefix + "{holders}:held:" + holder }

// told is a sorted set of the ids that a holder is to hear of, by when they were
// put there, ms by the server's clock.
func (k keys) told(holder string) string { return k.prefix + "{holders}:told:" + holder }

// own are what an owner has, as own.lua says: open, ended and bytes. One slot has
// all three, whatever braces an owner has in its name.
func (k keys) own(owner string) []string {
	tag := k.prefix + "own:{" + tagEscape.Replace(owner) + "}:"
	return []string{tag + "open", tag + "ended", tag + "bytes"}
}

// A tag ends at the first brace, and an empty one is none.
var tagEscape = strings.NewReplacer("%", "%25", "}", "%7D")

// changed is a channel of hints: "process id".
func (k keys) changed() string { return k.prefix + "changed" }

// parts are their names in Redis.
var parts = [taskroute.NumParts]string{
	taskroute.PartState: "s", taskroute.PartInput: "i", taskroute.PartOutcome: "o", taskroute.PartRequest: "r",
}

// index is what the indexes need to know of a task, as its record keeps it.
type index struct {
	open, runnable bool
	written        int64 // by the server's clock, ms
	holder         string
}

func (x index) String() string {
	head := strconv.AppendInt([]byte{digit(x.open), digit(x.runnable), ' '}, x.written, 10)
	return string(head) + " " + x.holder
}

func digit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

func parseIndex(s string) (index, error) {
	flags, rest, _ := strings.Cut(s, " ")
	written, holder, ok := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(written, 10, 64)
	if !ok || err != nil || len(flags) != 2 {
		return index{}, fmt.Errorf("stored task is damaged: index field %q", s)
	}
	return index{open: flags[0] == '1', runnable: flags[1] == '1', written: at, holder: holder}, nil
}

// isHeld tells whether the task belongs into the set of its holder, or of "".
func (x index) isHeld() bool { return x.open && (x.holder != "" || x.runnable) }

// rank is the score of an id in a set of held ones. Among all it sorts by
// expiry, so that what has expired can be dropped; among those of one task by
// revision, so that dropping an old entry spares a newer. It has 52 bits, which
// a score holds exactly.
func rank(expires time.Time, revision uint64) int64 {
	seconds := int64(math.MaxInt32)
	if !expires.IsZero() {
		seconds = min(max(expires.Unix(), 0), math.MaxInt32-1)
	}
	return seconds<<revisionBits | int64(min(revision, 1<<revisionBits-1))
}

const revisionBits = 21

// revisionOf is the way back.
func revisionOf(rank int64) uint64 { return uint64(rank & (1<<revisionBits - 1)) }
