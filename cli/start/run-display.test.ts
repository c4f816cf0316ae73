import { expect, test } from 'vitest';
import { run, stage } from '../../test/rig/runs/run-view.ts';
import { PLAIN } from '../render/text/style.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { createContext, type ProcessLike } from '../context.ts';
import { composeFrame, createRunDisplay, renderBlock } from './run-display.ts';

test('a frame erases the block before it, prints new lines, then the new block', () => {
  expect(composeFrame(2, ['new'], ['one', 'two', 'three'])).toBe('\u001b[2A\r\u001b[Jnew\none\ntwo\nthree\n');
});

test('the first frame erases nothing, and nothing to show writes nothing', () => {
  expect(composeFrame(0, ['new'], [])).toBe('new\n');
  expect(composeFrame(0, [], [])).toBe('');
});

const MANY = run(Array.from({ length: 40 }, (_, index) => stage(`s${index}`)));
const terminal = (rows: number): Parameters<typeof renderBlock>[1] => ({
  style: PLAIN,
  width: () => 80,
  height: () => rows,
});

test('a block fits the terminal, where the cursor could not go up beyond the first line', () => {
  for (const rows of [5, 10, 24, 60]) {
    const block = renderBlock(MANY, terminal(rows), { frame: 0, ctrlC: 'cancels' });
    expect(block.length).toBeLessThan(rows);
    expect(block.at(-2)).toMatch(/… and \d+ more stages/);
  }
  expect(renderBlock(MANY, terminal(60), { frame: 0, ctrlC: 'cancels' })).toHaveLength(17);
});

test('the last line shows what Ctrl-C does, as long as a handler listens', () => {
  expect(renderBlock(MANY, terminal(24), { frame: 0, ctrlC: 'again does not wait' }).at(-1)).toMatch(
    /Ctrl-C again does not wait$/,
  );
  expect(renderBlock(MANY, terminal(24), { frame: 0, ctrlC: null }).at(-1)).not.toContain('Ctrl-C');
});

/** Returns what a run's display writes to a terminal with these variables. */
async function shownWith(variables: Readonly<Record<string, string>>): Promise<string> {
  let written = '';
  const write = (data: string, done: () => void): boolean => {
    written += data;
    done();
    return true;
  };
  const terminal = { isTTY: true, columns: 80, rows: 24, write };
  const host = { stdout: terminal, stderr: terminal, stdin: null, cwd: () => '/' } as unknown as ProcessLike;
  const { stderr } = createContext(readEnvironment({ HOME: '/h', ...variables }), host, []);
  const display = createRunDisplay(stderr, (text) => text);
  const result = { stage: 'a', execKey: 'a/0/1' };
  const view = run([stage('a', { state: 'running' })]);
  display.note('starting');
  for (const body of [
    { type: 'stage-started', ...result, attempt: 1 },
    { type: 'output', ...result, stream: 'stdout', from: 0, to: 3, encoding: 'utf8', data: 'hi\n' },
  ] as const)
    await display.event({ id: body.type, seq: 1, atMs: 1, body }, view);
  await display.close();
  return written;
}

test('a terminal that only takes lines gets lines, as a pipe does', async () => {
  expect(await shownWith({ TERM: 'dumb' })).toBe('==> starting\n==> a started\n[a] hi\n');
});

test('NO_COLOR takes colours away and leaves the redrawn block', async () => {
  const shown = await shownWith({ TERM: 'xterm', NO_COLOR: '1' });
  expect(shown).toContain('[a] hi\n');
  expect(shown).toMatch(/. a +running/);
  const dimmed = '\u001b[2m';
  expect(shown).not.toContain(dimmed);
  expect(await shownWith({ TERM: 'xterm' })).toContain(dimmed);
});
