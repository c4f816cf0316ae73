// A program that starts a run through the HTTP API, follows its events, and prints its result.
//   voidbox up                                       (it prints the path of the socket)
//   VOIDBOX_SERVER=unix:/PATH/api.sock node examples/client.ts examples/hello.yaml
// On another machine VOIDBOX_SERVER is https://HOST:PORT, and VOIDBOX_TOKEN a token. Before Node 22.18: npx tsx.
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { dirname, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { ApiError, createClient, type FetchFunction } from 'voidbox/client';

const print = (line: string): void => void process.stdout.write(`${line}\n`);

// Node's `fetch` cannot connect to a Unix socket.
const overSocket =
  (socketPath: string): FetchFunction =>
  (url, { method, headers, body, signal }) =>
    new Promise((answer, fail) => {
      const options = { socketPath, method, headers: headers as Record<string, string>, signal: signal ?? undefined };
      const sent = request(url, options, (received) => {
        const { statusCode: status = 500, headers: fields } = received;
        answer(
          new Response(Readable.toWeb(received) as ReadableStream<Uint8Array>, {
            status,
            headers: fields as Record<string, string>,
          }),
        );
      });
      sent.on('error', fail).end(body);
    });

const [file] = process.argv.slice(2);
const { VOIDBOX_SERVER: server, VOIDBOX_TOKEN: token } = process.env;
if (file === undefined || server === undefined) throw new Error('use: VOIDBOX_SERVER=… node client.ts SPEC');

const socket = /^unix:(.*)$/.exec(server)?.[1];
const voidbox =
  socket === undefined
    ? createClient({ url: server, token })
    : createClient({ url: 'http://voidbox', fetch: overSocket(socket) });
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort(new Error('interrupted: the run continues')));

try {
  // Only the owner of the socket may name a folder of the machine. A token uploads folders instead.
  const place = socket === undefined ? {} : { baseDir: dirname(resolve(file)) };
  const { runId } = await voidbox.runs.start({ spec: await readFile(file, 'utf8'), ...place });
  print(`started ${runId}`);
  for await (const { body } of voidbox.runs.follow(runId, { output: false, signal: interrupted.signal }))
    if (body.type === 'stage-finished') print(`${body.stage}: ${body.result.outcome}`);
  const { state, outputText } = await voidbox.runs.result(runId);
  print(`the run has ${state}`);
  process.stdout.write(outputText ?? '');
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  print(`${error.code}: ${error.detail}`);
  for (const { line, message, remedy } of error.diagnostics) print(`  line ${line}: ${message} ${remedy}`);
  process.exitCode = 1;
}
