import { expect, test } from 'vitest';
import { compileText } from '../domain/language/load.ts';
import { pipelineSpec, workflowSpec } from './validation.ts';

test('generated specs are valid, and nothing in them is unknown', () => {
  for (const text of [pipelineSpec(20), workflowSpec(20)]) {
    const { plan, diagnostics } = compileText(text, 'bench.yaml', { baseDir: '/', params: {} });
    expect(diagnostics).toEqual([]);
    expect(plan?.stages).toHaveLength(20);
    expect(plan?.scopes).toHaveLength(20);
  }
});
