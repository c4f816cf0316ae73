import { expect, test } from 'vitest';
import { run, stage } from '../test/rig/run-view.ts';
import { PLAIN } from './render/style.ts';
import { composeFrame, renderBlock } from './run-display.ts';

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

test('the last line says what Ctrl-C does, as long as somebody listens', () => {
  expect(renderBlock(MANY, terminal(24), { frame: 0, ctrlC: 'again does not wait' }).at(-1)).toMatch(
    /Ctrl-C again does not wait$/,
  );
  expect(renderBlock(MANY, terminal(24), { frame: 0, ctrlC: null }).at(-1)).not.toContain('Ctrl-C');
});
