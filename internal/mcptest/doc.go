// Package mcptest is the test kit: scriptable MCP servers of both eras that
// keep a ledger of all that reached them, a small modern client that can also
// be wrong on purpose, a TCP proxy that breaks connections, and real servers
// from npm. Servers listen on 127.0.0.1 only and end with their test.
package mcptest
