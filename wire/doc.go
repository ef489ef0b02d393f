// Package wire holds what travels: the JSON-RPC envelope with verbatim ids and
// raw params, results and errors, the header rules of Streamable HTTP, the
// protocol's error codes, the shapes of tasks and input requests, and SSE
// framing. It decides nothing and imports nothing of this module.
package wire

import "encoding/json"

// Raw is JSON exactly as it was received. Whoever holds a Raw must not change
// its bytes; a changed value is a new Raw.
type Raw = json.RawMessage

// Protocol versions and identifiers of MCP.
const (
	// Version is the modern protocol revision this gateway speaks to clients.
	Version = "2026-07-28"
	// LegacyVersion is the newest revision that opens with initialize.
	LegacyVersion = "2025-11-25"
	// TasksExtension identifies SEP-2663 in capabilities.extensions.
	TasksExtension = "io.modelcontextprotocol/tasks"
)

// Members of _meta that the protocol reserves (basic/index#meta).
const (
	MetaVersion        = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo     = "io.modelcontextprotocol/clientInfo"
	MetaCapabilities   = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
	MetaServerInfo     = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask    = "io.modelcontextprotocol/related-task"
	MetaProgressToken  = "progressToken"
)

// Values of resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)
