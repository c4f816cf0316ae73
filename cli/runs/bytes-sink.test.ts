import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { bytesSink } from './bytes-sink.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function terminal(): { readonly shown: string[]; readonly sink: ReturnType<typeof bytesSink> } {
  const shown: string[] = [];
  const write = async (text: string | Uint8Array): Promise<void> => void shown.push(String(text));
  return { shown, sink: bytesSink({ isTerminal: true, write }) };
}
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test('a terminal gets whole lines, and a line without an end after a second', async () => {
  const { shown, sink } = terminal();
  await sink.write(bytes('one\ntwo'));
  expect(shown).toEqual(['one\n']);
  await vi.advanceTimersByTimeAsync(900);
  await sink.write(bytes('\nYour name? '));
  await vi.advanceTimersByTimeAsync(900);
  expect(shown).toEqual(['one\n', 'two\n']);
  await vi.advanceTimersByTimeAsync(200);
  expect(shown).toEqual(['one\n', 'two\n', 'Your name? ']);
  await sink.write(bytes('.'));
  await vi.advanceTimersByTimeAsync(600);
  await sink.write(bytes('.'));
  await vi.advanceTimersByTimeAsync(600);
  expect(shown.at(-1)).toBe('..');
  await sink.write(bytes('Ada'));
  await sink.end();
  expect(shown.at(-1)).toBe('Ada');
  await vi.advanceTimersByTimeAsync(2_000);
  expect(shown).toHaveLength(5);
});

test('an escape sequence that is shown in two parts moves no cursor', async () => {
  const { shown, sink } = terminal();
  await sink.write(bytes('a\u001b'));
  await vi.advanceTimersByTimeAsync(1_100);
  await sink.write(bytes('[2Jb\n'));
  expect(shown.join('')).toBe('a␛[2Jb\n');
});

test('a terminal gets colours after the text is sanitized', async () => {
  const shown: (string | Uint8Array)[] = [];
  const write = async (text: string | Uint8Array): Promise<void> => void shown.push(text);
  const sink = bytesSink({ isTerminal: true, write }, (text) => `<${text}>`);
  await sink.write(bytes('\u001b[2Ja\n'));
  await sink.end();
  expect(shown).toEqual(['<a\n>']);
});

test('a pipe gets the bytes as they are', async () => {
  const written: (string | Uint8Array)[] = [];
  const write = async (data: string | Uint8Array): Promise<void> => void written.push(data);
  const sink = bytesSink({ isTerminal: false, write });
  await sink.write(bytes('\u001b[31ma'));
  await sink.end();
  expect(written).toEqual([bytes('\u001b[31ma')]);
});
