package admin

import (
	"encoding/json"
	"net/http"
)

// Tool is what is known of a tool that an upstream has listed.
type Tool struct {
	Upstream    string          `json:"upstream"`
	Name        string          `json:"name"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	TaskSupport string          `json:"taskSupport,omitempty"` // of 2025-11-25
	Calls       int             `json:"calls"`                 // measured of late
	// Of these calls one in ten, half, and nine in ten took at most so long.
	QuickSeconds float64 `json:"quickSeconds,omitempty"`
	UsualSeconds float64 `json:"usualSeconds,omitempty"`
	SlowSeconds  float64 `json:"slowSeconds,omitempty"`
}

// Tools is the body of GET /tools.
type Tools struct {
	Policy string `json:"policy"` // the hash of what holds
	Tools  []Tool `json:"tools"`
}

// tools lists what policy knows of tools, on this replica.
func (h *Handler) tools(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, Tools{Policy: h.from.Policy().Hash, Tools: h.from.Tools()})
}
