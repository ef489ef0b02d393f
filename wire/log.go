package wire

import "slices"

// LogLevels are those of notifications/message, the least severe first
// (server/utilities/logging#log-levels).
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogsAt tells whether who asked for the level wanted hears of a message of the
// level got. A level of a server's own is let through.
func LogsAt(got, wanted string) bool {
	at := slices.Index(LogLevels, got)
	return at < 0 || at >= slices.Index(LogLevels, wanted)
}

// LogLevel is the level of the params of notifications/message; "" when they
// name none.
func LogLevel(params Raw) string {
	o, _ := splitObject(params)
	level, _ := String(o.Get("level"))
	return level
}
