package app_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/taskroute"
	"taskgate/wire"
)

// restable are the stores that outlive a gateway, and how all that is in one is
// read by somebody who is no gateway.
func restable(t *testing.T) map[string]func() (url string, dump func() []byte) {
	return map[string]func() (string, func() []byte){
		"embedded": func() (string, func() []byte) {
			path := filepath.Join(t.TempDir(), "tasks.db")
			return path, func() []byte {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
		},
		"redis": func() (string, func() []byte) {
			s := redistest.Start(t)
			return s.URL(), func() []byte {
				var out strings.Builder
				for key := range strings.Lines(s.CLI(t, "--raw", "KEYS", "*")) {
					key = strings.TrimSuffix(key, "\n")
					switch strings.TrimSpace(s.CLI(t, "TYPE", key)) {
					case "hash":
						out.WriteString(s.CLI(t, "--raw", "HGETALL", key))
					case "zset":
						out.WriteString(s.CLI(t, "--raw", "ZRANGE", key, "0", "-1"))
					default:
						out.WriteString(s.CLI(t, "--raw", "GET", key))
					}
					out.WriteString(key)
				}
				return []byte(out.String())
			}
		},
	}
}

const (
	oldKey = "1111111111111111111111111111111111111111111111111111111111111111"
	newKey = "IiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiI=" // 32 times 0x22
)

// restConfig keeps tasks in the store, with encryption unless it is "".
func restConfig(store, upstream, encryption string) string {
	yaml := strings.NewReplacer("STORE", store, "URL", upstream).Replace(withSums(people) + `
store: STORE
upstreams: [{name: u, path: /mcp, url: "URL"}]
`)
	if encryption != "" {
		yaml += "encryption: " + encryption + "\n"
	}
	return yaml
}

const restPolicy = "rules: [{match: {tool: echo}, task: required, promoteAfter: 0s}]\n"

func restKeys() []string { return []string{"OLD_KEY=" + oldKey, "NEW_KEY=" + newKey} }

// leave makes tasks whose arguments, questions, answers, results, errors and
// progress hold the marker: two that have ended, one that waits for an answer.
func leave(t *testing.T, g *gateway) (ended []string, asking string) {
	t.Helper()
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	echoed := task(t, c, "echo", `{"text":"m4rker"}`)
	wait(t, c, echoed, wire.StatusCompleted)
	answered := task(t, c, "greet", `{"text":"m4rker"}`)
	requests, _ := wait(t, c, answered, wire.StatusInputRequired).Object("inputRequests")
	must(t)(c.Update(t.Context(), answered, wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"m4rker"}`))))
	wait(t, c, answered, wire.StatusCompleted)
	asking = task(t, c, "greet", `{"text":"m4rker"}`)
	wait(t, c, asking, wire.StatusInputRequired)
	return []string{echoed, answered}, asking
}

// greetingUpstream is of the new protocol, so that its questions are parked and
// outlive a gateway.
func greetingUpstream(t *testing.T) string {
	u := mcptest.NewModern(append(askingTools(), mcptest.Tool{Name: "greet", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Elicit("name", "Who is m4rker?"))
		if err != nil {
			return nil, err
		}
		return mcptest.Text("hello m4rker " + string(answers["name"])), nil
	}})...)
	u.RequestState = true
	return u.Start(t)
}

func TestNothingCanBeReadAtRest(t *testing.T) {
	for store, open := range restable(t) {
		t.Run(store, func(t *testing.T) {
			for encryption, readable := range map[string]bool{"": true, "{keys: [env:OLD_KEY], plaintext: refuse}": false} {
				url, dump := open()
				t.Run("leave", func(t *testing.T) { // ends the gateway
					leave(t, start(t, restConfig(url, greetingUpstream(t), encryption), restPolicy, restKeys()...))
				})
				for _, secret := range []string{"m4rker", "Who is", "hello"} {
					if got := bytes.Contains(dump(), []byte(secret)); got != readable {
						t.Errorf("encryption %q: %q is there: %v", encryption, secret, got)
					}
				}
			}
		})
	}
}

// TestKeysRotate goes all the way: no key, a key, another one beside it, the
// other one alone. Every task is served at every step.
func TestKeysRotate(t *testing.T) {
	for store, open := range restable(t) {
		t.Run(store, func(t *testing.T) {
			url, dump := open()
			upstream := greetingUpstream(t)
			var ended, asking []string
			for _, encryption := range []string{
				"", "{keys: [env:OLD_KEY]}", "{keys: [env:NEW_KEY, env:OLD_KEY]}", "{keys: [env:NEW_KEY], plaintext: refuse}",
			} {
				yaml := restConfig(url, upstream, encryption)
				t.Run("serve", func(t *testing.T) {
					g := start(t, yaml, restPolicy, restKeys()...)
					more, question := leave(t, g)
					ended, asking = append(ended, more...), append(asking, question)
					serves(t, g, ended, asking)
				})
				if encryption != "" {
					rekey(t, yaml)
					if bytes.Contains(dump(), []byte("m4rker")) {
						t.Errorf("%s: can be read after the tasks were encrypted anew", encryption)
					}
				}
			}
		})
	}
}

func serves(t *testing.T, g *gateway, ended, asking []string) {
	t.Helper()
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	for _, id := range ended {
		if r := must(t)(c.Task(t.Context(), id)); !bytes.Contains(r.Body, []byte("m4rker")) {
			t.Errorf("got %s", r.Body)
		}
	}
	for _, id := range asking {
		wait(t, c, id, wire.StatusInputRequired)
	}
}

// rekey does it twice: the second time there is nothing left to do.
func rekey(t *testing.T, yaml string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, yaml)
	cfg, err := config.Load(path, restKeys(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var first, again taskroute.Rekeyed
	failed := func(_ string, err error) { t.Error(err) }
	if first, err = app.Rekey(t.Context(), cfg, zap.NewNop(), failed); err == nil {
		again, err = app.Rekey(t.Context(), cfg, zap.NewNop(), failed)
	}
	if err != nil || first.Records == 0 || again.Records != first.Records || again.Rewritten != 0 || first.Failed != 0 {
		t.Errorf("got %+v, then %+v, %v", first, again, err)
	}
}

// TestWithoutItsKeyATaskIsNotServed: and it says so, and harms nobody.
func TestWithoutItsKeyATaskIsNotServed(t *testing.T) {
	for store, open := range restable(t) {
		t.Run(store, func(t *testing.T) {
			url, _ := open()
			upstream := greetingUpstream(t)
			var ended []string
			t.Run("its key", func(t *testing.T) {
				ended, _ = leave(t, start(t, restConfig(url, upstream, "{keys: [env:OLD_KEY]}"), restPolicy, restKeys()...))
			})
			g := start(t, restConfig(url, upstream, "{keys: [env:NEW_KEY]}"), restPolicy, restKeys()...)
			c := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
			r := must(t)(c.Task(t.Context(), ended[0]))
			if e := r.Err(); r.Status != 200 || e == nil || !strings.Contains(string(e.Data), `"task_unreadable"`) {
				t.Errorf("got %d %s", r.Status, r.Body)
			}
			leave(t, g)
			if log := g.log.String(); !strings.Contains(log, "not among encryption.keys: key id ") || !strings.Contains(log, `"key":"env:NEW_KEY","id":"`) || strings.Contains(log, ended[0]) || strings.Contains(log, newKey) {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

func TestRekeyWantsAKeyAndAStore(t *testing.T) {
	cfg := config.Default()
	failed := func(_ string, err error) { t.Error(err) }
	if _, err := app.Rekey(t.Context(), cfg, zap.NewNop(), failed); err == nil || !strings.Contains(err.Error(), "no key is configured") {
		t.Errorf("got %v", err)
	}
	cfg.Encryption.Keys, cfg.Store = []config.Secret{config.NewSecret(oldKey)}, "memory"
	if _, err := app.Rekey(context.Background(), cfg, zap.NewNop(), failed); err == nil || !strings.Contains(err.Error(), "gone with the gateway") {
		t.Errorf("got %v", err)
	}
}
