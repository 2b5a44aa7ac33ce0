/*
 * ws_echo - npm's ws client against nibd echo, for test_browser.py.
 *
 *   node ws_echo.js URL
 */
'use strict';
const assert = require('assert');
const { once } = require('events');
const WebSocket = require('ws');

async function expectEcho(socket, send, expected, binary) {
  const answer = once(socket, 'message');
  send();
  const [data, isBinary] = await answer;
  assert.strictEqual(isBinary, binary);
  assert.ok(data.equals(Buffer.from(expected)));
}

async function main(url) {
  const socket = new WebSocket(url, { perMessageDeflate: true });
  await once(socket, 'open');
  assert.strictEqual(socket.extensions, '');
  for (const length of [0, 1, 125, 126, 65535, 65536, 1048576]) {
    const text = 'x'.repeat(length);
    const bytes = Buffer.alloc(length, 0xfe);
    await expectEcho(socket, () => socket.send(text), text, false);
    await expectEcho(socket, () => socket.send(bytes), bytes, true);
  }
  await expectEcho(socket, () => {
    socket.send('one ', { fin: false });
    socket.send('\u2764 ', { fin: false });
    socket.send('two');
  }, 'one \u2764 two', false);

  const pong = once(socket, 'pong');
  socket.ping('are you there');
  assert.strictEqual(String((await pong)[0]), 'are you there');

  const closed = once(socket, 'close');
  socket.close(4321, 'enough');
  const [code, reason] = await closed;
  assert.strictEqual(code, 4321);
  assert.strictEqual(String(reason), 'enough');
}

main(process.argv[2]).then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
