// Command fastproxy forwards every request to one server with fasthttp: about
// the least that a proxy in Go can do.
//
//	fastproxy LISTEN UPSTREAM
package main

import (
	"log"
	"os"

	"github.com/valyala/fasthttp"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: fastproxy LISTEN UPSTREAM, both as host:port")
	}
	upstream := &fasthttp.HostClient{Addr: os.Args[2], MaxConns: 1024}
	log.Fatal(fasthttp.ListenAndServe(os.Args[1], func(ctx *fasthttp.RequestCtx) {
		ctx.Request.Header.Del(fasthttp.HeaderConnection)
		if err := upstream.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		}
		ctx.Response.Header.Del(fasthttp.HeaderConnection)
	}))
}
