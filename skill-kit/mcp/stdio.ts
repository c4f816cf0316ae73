/** An MCP server for the one client that started this process. */
import { Writable } from 'node:stream';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { claimStdout, type OwnStdout } from '../cli/own-stdout.ts';
import { createMcpServer } from './server.ts';
import { CUT_OFF_MS, waitAtMost } from './patience.ts';
import type { ToolSet } from './tool-set.ts';

export interface StdioOptions {
  readonly warn: (message: string) => void;
  /** The most bytes that the client may send before a line ends; more bytes end the server. Default 16 MiB. */
  readonly maxMessageBytes?: number;
  /** The time that running calls have after the client has gone. Default 5 s. */
  readonly graceMs?: number;
  /** Ends it at once. */
  readonly signal?: AbortSignal;
}

const MIB = 1024 * 1024;

/**
 * Serves until the client closes its end. Prints of the skill go to stderr, because stdout carries the protocol.
 * @throws {Error} when the client sends a message that is too large
 */
export async function serveStdio(
  tools: ToolSet,
  { graceMs = 5000, maxMessageBytes = 16 * MIB, signal, warn }: StdioOptions,
): Promise<void> {
  const { idle, server } = createMcpServer(tools, { warn });
  const stdout = claimStdout();
  const gone = new Promise<void>((resolve, reject) => {
    process.stdin.once('end', resolve).once('close', resolve);
    process.stdout.on('error', () => resolve());
    // The transport closes on its own for one reason only: after a message that is too long, it cannot find the next
    // one.
    server.onclose = () =>
      reject(
        new Error(
          `A message of more than ${maxMessageBytes / MIB} MiB came in. Start the server with a larger --max-message-mib.`,
        ),
      );
  });
  const toldToStop = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }));
  try {
    await server.connect(new StdioServerTransport(process.stdin, streamOf(stdout), { maxBufferSize: maxMessageBytes }));
    await Promise.race([gone, toldToStop]);
    if (signal?.aborted !== true) await Promise.race([waitAtMost(graceMs, idle()), toldToStop]);
  } finally {
    await tools.close();
    // Interrupted calls get an answer, in case the client still reads.
    await waitAtMost(CUT_OFF_MS, idle());
    await server.close();
    stdout.giveBack();
  }
}

function streamOf({ write }: OwnStdout): Writable {
  const stream = new Writable({
    decodeStrings: false,
    write: (chunk: string | Buffer, encoding, done) => void write(chunk, encoding, done),
  });
  // The transport notices a closed pipe only by its client's silence; an error without a listener would end the
  // process.
  stream.on('error', () => undefined);
  return stream;
}
