package h1

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"syscall"
	"time"
)

// readBuffer, in bytes, is small since many streams may be open at once; larger
// reads go around it.
const readBuffer = 2 << 10

// conn is a connection to a server.
type conn struct {
	net.Conn
	raw       syscall.RawConn // of Conn
	addr      string
	in        *bufio.Reader // reads from the conn, which counts; nil while nothing comes
	left      int64         // bytes that may still be read
	idleSince time.Time

	quiet       bool // there was nothing to be read
	look, sleep func(fd uintptr) bool
}

func newConn(nc net.Conn, addr string) (*conn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T cannot be watched", nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, raw: raw, addr: addr, left: math.MaxInt64}
	c.look = func(fd uintptr) bool {
		c.quiet = silent(fd)
		return true
	}
	c.sleep = func(fd uintptr) bool {
		woken := c.quiet
		c.quiet = !woken && silent(fd)
		return !c.quiet
	}
	return c, nil
}

var errHeaderTooLong = errors.New("the header of the response is too long")

// Read implements io.Reader, up to the limit.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderTooLong
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func (c *conn) readHeader(limit int64) (*http.Response, error) {
	c.left = limit
	resp, err := http.ReadResponse(c.in, nil)
	c.left = math.MaxInt64
	return resp, err
}

// clean tells whether the server has sent nothing beyond its response.
func (c *conn) clean() bool { return c.in.Buffered() == 0 }

// await returns when there is something to be read, if only an error. It looks once;
// then it is woken when there is.
func (c *conn) await() {
	c.quiet = false
	_ = c.raw.Read(c.sleep) // who reads gets the error
}

// alive tells whether an idle connection can be used: the server has neither
// closed it nor sent anything, which would be taken for the next response.
func (c *conn) alive() bool { return c.raw.Read(c.look) == nil && c.quiet }

func silent(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return errors.Is(err, syscall.EAGAIN)
}

// abort ends whatever goes on with the connection.
func (c *conn) abort() { _ = c.Close() } // there is nobody to tell
