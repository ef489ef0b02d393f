// Command reverseproxy forwards every request to one server with
// httputil.ReverseProxy, as fast as the standard library goes: with enough idle
// connections and a pool of buffers.
//
//	reverseproxy LISTEN UPSTREAM
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: reverseproxy LISTEN UPSTREAM, both as host:port")
	}
	upstream := &url.URL{Scheme: "http", Host: os.Args[2]}
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:  &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true},
		BufferPool: &buffers{},
	}
	log.Fatal(http.ListenAndServe(os.Args[1], proxy))
}

// buffers is an httputil.BufferPool.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10 // bytes, what ReverseProxy makes itself

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
