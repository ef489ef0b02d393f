// Preload for servers that listen on all interfaces: whatever host they name or
// leave out, they get 127.0.0.1.
'use strict';
const net = require('node:net');

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (...args) {
  const [first, second] = args;
  if (first !== null && typeof first === 'object') {
    if (first.port !== undefined) args[0] = { ...first, host: '127.0.0.1' };
  } else if (typeof first === 'number' || /^\d+$/.test(first)) {
    args.splice(1, typeof second === 'string' ? 1 : 0, '127.0.0.1');
  }
  return listen.apply(this, args);
};
