// The wire of the official tasks requester, which it leaves to its host.

// dispatcher returns a rawDispatch: it sends one request and returns the response
// to it, from a JSON body or out of an event stream.
export function dispatcher(url) {
  let sent = 0;
  return async (request, options = {}) => {
    const id = `raw-${++sent}`;
    const name = request.params?.taskId ?? request.params?.name;
    const headers = new Headers({
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': request.method,
    });
    if (name) headers.set('mcp-name', name);
    for (const [k, v] of Object.entries(options.context?.headers ?? {})) headers.set(k, v); // some are the same
    const response = await fetch(url, {
      method: 'POST',
      signal: options.signal,
      headers,
      body: JSON.stringify({ jsonrpc: '2.0', id, ...request }),
    });
    const message = responseTo(id, response.headers.get('content-type') ?? '', await response.text());
    return message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result };
  };
}

function responseTo(id, contentType, body) {
  if (!contentType.startsWith('text/event-stream')) return JSON.parse(body);
  return body
    .split(/\r?\n\r?\n/)
    .map((event) => event.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n'))
    .filter((data) => data.trim() !== '')
    .map((data) => JSON.parse(data))
    .find((message) => message.id === id);
}
