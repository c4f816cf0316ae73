import { PassThrough, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { createContext } from './context.ts';

function inputOf(stdin: Readable, signal: AbortSignal): AsyncIterable<Uint8Array> {
  const out = new PassThrough() as unknown as NodeJS.WriteStream;
  const host = { stdout: out, stderr: out, stdin: stdin as NodeJS.ReadStream, cwd: () => '/' };
  return createContext(readEnvironment({}), host, []).openStdin(signal);
}

async function textOf(input: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of input) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

const never = new AbortController().signal;

test('standard input comes to its end, no faster than it is taken', async () => {
  expect(await textOf(inputOf(Readable.from(['a', Buffer.from('b')]), never))).toBe('ab');
  let made = 0;
  const endless = new Readable({
    read() {
      made += 1;
      this.push(Buffer.alloc(64 * 1024));
    },
  });
  const input = inputOf(endless, never)[Symbol.asyncIterator]();
  await input.next();
  expect(made).toBeLessThan(8);
  await input.return!();
});

test('at the signal it ends, also while nobody types', async () => {
  const typed = new PassThrough();
  const stop = new AbortController();
  const all = textOf(inputOf(typed, stop.signal));
  typed.write('begun');
  setTimeout(() => stop.abort(), 50);
  expect(await all).toBe('begun');
  expect(await textOf(inputOf(new PassThrough(), AbortSignal.abort()))).toBe('');
});

test('one that cannot be read is an error, and not an end', async () => {
  const broken = new Readable({
    read() {
      this.destroy(new Error('EIO: i/o error, read'));
    },
  });
  await expect(textOf(inputOf(broken, never))).rejects.toMatchObject({
    code: 'cli/usage',
    message: 'standard input cannot be read: EIO: i/o error, read',
  });
});
