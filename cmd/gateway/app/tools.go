package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/config"
	"taskgate/policy"
	"taskgate/upstream"
	"taskgate/wire"
)

// ListTools asks the one upstream of cfg for its tools, all pages.
func ListTools(ctx context.Context, cfg config.Config, version string) (tools []policy.Tool, err error) {
	caller, err := newCaller(cfg.Upstreams[0], cfg, version, new(upkeep), zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, caller.Close(context.WithoutCancel(ctx))) }()
	tools = []policy.Tool{} // a server without any is known
	for cursor, page := wire.Raw(nil), uint64(1); ; page++ {
		result, err := listPage(ctx, caller, page, cursor)
		if err != nil {
			return nil, err
		}
		tools = append(tools, result.Tools...)
		if cursor = result.NextCursor; cursor == nil {
			return tools, nil
		}
	}
}

type toolsPage struct {
	Tools      []policy.Tool `json:"tools"`
	NextCursor wire.Raw      `json:"nextCursor"`
}

func listPage(ctx context.Context, caller upstream.Caller, id uint64, cursor wire.Raw) (page toolsPage, err error) {
	var params wire.Object
	if cursor != nil {
		params = params.With("cursor", cursor)
	}
	everything := wire.ParseCapabilities(wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`))
	reply, err := caller.Call(ctx, upstream.Request{ID: id, Method: "tools/list", Params: params, Capabilities: everything}, deaf{})
	if err != nil {
		return page, err
	}
	if reply.Error != nil {
		return page, wire.ParseError(reply.Error)
	}
	if err := json.Unmarshal(reply.Result, &page); err != nil {
		return page, fmt.Errorf("tools/list result: %w", err)
	}
	return page, nil
}

// deaf is an upstream.Handler for requests that only want their response.
type deaf struct{}

func (deaf) Progress(wire.Object)    {}
func (deaf) Notify(string, wire.Raw) {}
func (deaf) Ask(context.Context, upstream.Question) (wire.Raw, *wire.Error) {
	return nil, wire.Errorf(wire.CodeMethodNotFound, "nobody is here to answer")
}
