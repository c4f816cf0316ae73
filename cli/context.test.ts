import { closeSync, openSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { PassThrough, Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { createContext, type ProcessLike } from './context.ts';
import { printError } from './print-error.ts';

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

test('standard input is read to its end, no faster than the consumer reads', async () => {
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

test('a folder is refused, which Node reads as an empty input', async () => {
  const fd = openSync(tmpdir(), 'r');
  const folder = Object.assign(Readable.from([]), { fd });
  await expect(textOf(inputOf(folder, never))).rejects.toThrow('standard input is a folder');
  closeSync(fd);
});

test('standard input ends at the signal, also while no input arrives', async () => {
  const typed = new PassThrough();
  const stop = new AbortController();
  const all = textOf(inputOf(typed, stop.signal));
  typed.write('begun');
  setTimeout(() => stop.abort(), 50);
  expect(await all).toBe('begun');
  expect(await textOf(inputOf(new PassThrough(), AbortSignal.abort()))).toBe('');
});

test('unreadable standard input is an error instead of an end', async () => {
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

describe('a question on the terminal', () => {
  const ESCAPE = String.fromCharCode(27);

  function ask(keys: string): { readonly answer: Promise<boolean | null>; readonly shown: () => string } {
    const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => input });
    const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
    const host = { stdout: output, stderr: output, stdin: input, cwd: () => '/' } as unknown as ProcessLike;
    const answer = createContext(readEnvironment({}), host, []).confirm('Fetch it?');
    input.write(keys);
    return { answer, shown: () => String(output.read() ?? '') };
  }

  test.each<[string, boolean | null]>([
    ['y\r', true],
    ['YES\r', true],
    ['no\r', false],
    ['\r', false],
    ['\u0004', null],
  ])('takes the keys %j as %j', async (keys, answer) => {
    expect(await ask(keys).answer).toBe(answer);
  });

  test('ends the command at Ctrl-C with 130 and without an error', async () => {
    const { answer, shown } = ask('y\u0003');
    const error: unknown = await answer.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(shown().replaceAll(new RegExp(`${ESCAPE}\\[[0-9;]*[A-Za-z]`, 'g'), '')).toBe('Fetch it? [y/N] y\n');
    const told = new PassThrough() as unknown as NodeJS.WriteStream;
    const host = { stdout: told, stderr: told, stdin: process.stdin, cwd: () => '/' };
    const context = createContext(readEnvironment({}), host, []);
    expect(await printError(error, { context, json: false })).toBe(130);
    expect(told.read()).toBeNull();
  });
});
