package demo

import "taskgate/wire"

// inspectorCommand is one that a reader can paste. The Inspector's command line
// says that it cannot be asked, so the tool does not ask.
func inspectorCommand(endpoint string) string {
	return `   npx -y @modelcontextprotocol/inspector@2.12.0 --cli --transport http --server-url ` + endpoint + ` \
     --protocol-era modern --method tools/call --tool-name generate_report --tool-arg topic=tides`
}

// curlCommand declares the tasks extension but, like the Inspector, nothing that
// could be asked.
func curlCommand(endpoint string) string {
	return `   curl -s ` + endpoint + ` \
     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
     -H 'MCP-Protocol-Version: ` + wire.Version + `' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: generate_report' \
     -d '` + curlBody + `'`
}

const curlBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"generate_report","arguments":{"topic":"tides"},"_meta":{
       "` + wire.MetaVersion + `":"` + wire.Version + `","` + wire.MetaClientInfo + `":{"name":"curl","version":"0"},
       "` + wire.MetaCapabilities + `":{"extensions":{"` + wire.TasksExtension + `":{}}}}}}`
