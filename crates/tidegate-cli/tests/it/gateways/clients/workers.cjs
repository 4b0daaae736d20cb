// As workers.py, over HTTP/1.1 and HTTP/2. Arguments: `1` or `2`, the address, the number of requests.

const http = require('node:http');
const http2 = require('node:http2');

const [, , version, address, count] = process.argv;
const WORKERS = 12;
const CHECK = JSON.stringify({ namespace: 'shop', resource: 'app', wait_ms: 10000 });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function collect(stream, status, resolve) {
  let text = '';
  stream.on('data', (bytes) => (text += bytes));
  stream.on('end', () => resolve([status(), text]));
}

function ask(path, body) {
  return new Promise((resolve, reject) => {
    if (version === '2') {
      const session = http2.connect(`http://${address}`);
      session.on('error', reject);
      const request = session.request({ ':method': 'POST', ':path': path });
      let status;
      request.on('response', (headers) => (status = headers[':status']));
      request.on('error', reject);
      collect(request, () => status, (answer) => {
        session.close();
        resolve(answer);
      });
      request.end(body);
      return;
    }
    const request = http.request(`http://${address}${path}`, { method: 'POST', agent: false }, (answer) =>
      collect(answer, () => answer.statusCode, resolve),
    );
    request.on('error', reject);
    request.end(body);
  });
}

let left = Number(count);
let atWork = 0;
let most = 0;
let failed = 0;

async function work() {
  while (left > 0) {
    const [status, text] = await ask('/v1/check', CHECK);
    if (status !== 200) {
      await pause(10);
      continue;
    }
    left -= 1;
    atWork += 1;
    most = Math.max(most, atWork);
    await pause(50);
    atWork -= 1;
    const [released] = await ask('/v1/release', JSON.stringify({ permit: JSON.parse(text).permit }));
    if (released !== 200) failed += 1;
  }
}

Promise.all(Array.from({ length: WORKERS }, work)).then(() => console.log(most, failed));
