import { expect, test } from 'vitest';
import { compileText } from '../domain/language/load.ts';
import { noopSpec, wideSpec, WIDTH } from './stages.ts';

test('specs of the figures say what is meant: nothing in them is unknown, and they are as wide as their names', () => {
  for (const [text, maxParallel] of [
    [noopSpec(3), 4],
    [wideSpec(60), WIDTH],
  ] as const) {
    const { plan, diagnostics } = compileText(text, 'bench.yaml', { baseDir: '/', params: {} });
    expect(diagnostics).toEqual([]);
    expect(plan).toMatchObject({ maxParallel });
  }
});
