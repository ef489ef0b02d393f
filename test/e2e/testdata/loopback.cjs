// Preloaded with node -r: a server that would listen on every interface listens
// on 127.0.0.1 alone.
const { Server } = require('node:net');

const listen = Server.prototype.listen;
Server.prototype.listen = function (first, ...rest) {
  if (typeof first !== 'number' && typeof first !== 'string') return listen.call(this, first, ...rest);
  const callback = rest.find((arg) => typeof arg === 'function');
  return listen.call(this, { port: Number(first), host: '127.0.0.1' }, callback);
};
