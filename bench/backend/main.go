// Command backend is the MCP server behind everything that is measured. It does
// as little as it can: it knows the tools echo, wait, large and sink.
//
//	backend LISTEN   HTTP: 2026-07-28 at /mcp, sessions of older versions at /legacy and,
//	                 with answers as SSE, at /legacy-sse
//	backend stdio    older versions on standard input and output
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
)

func main() {
	switch {
	case len(os.Args) != 2:
		log.Fatal("usage: backend LISTEN | backend stdio")
	case os.Args[1] == "stdio":
		log.Fatal(stdio(os.Stdin, os.Stdout))
	}
	http.HandleFunc("/mcp", serve)
	http.HandleFunc("/legacy", sessions(func(w http.ResponseWriter, answer []byte) { write(w, answer) }))
	http.HandleFunc("/legacy-sse", sessions(func(w http.ResponseWriter, answer []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", answer)
	}))
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}

// serve answers requests that stand alone.
func serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	write(w, answer(r.Context(), body))
}

func write(w http.ResponseWriter, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that is gone needs none
}

// sessions answers requests that belong to a session, in the given form.
func sessions(write func(http.ResponseWriter, []byte)) http.HandlerFunc {
	const header = "Mcp-Session-Id"
	var known sync.Map
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		id := r.Header.Get(header)
		switch _, ok := known.Load(id); {
		case err != nil:
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodDelete:
			known.Delete(id)
		case id == "":
			id = rand.Text()
			known.Store(id, nil)
			w.Header().Set(header, id)
			write(w, answer(r.Context(), body))
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			if a := answer(r.Context(), body); a != nil {
				write(w, a)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func stdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // one line at a time
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := append([]byte(nil), lines.Bytes()...)
		go func() {
			if a := answer(context.Background(), line); a != nil {
				mu.Lock()
				defer mu.Unlock()
				_, _ = out.Write(append(a, '\n')) // then nobody reads any more
			}
		}()
	}
	return lines.Err()
}
