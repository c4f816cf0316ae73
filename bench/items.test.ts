import { expect, test } from 'vitest';
import { compileText } from '../domain/language/load.ts';
import { itemsSpec, ITEMS_WIDTH } from './items.ts';

test('the spec of the figure of items has nothing unknown, and as many items as are asked for', () => {
  const { plan, diagnostics } = compileText(itemsSpec(30), 'bench.yaml', { baseDir: '/', params: {} });
  expect(diagnostics).toEqual([]);
  const each = plan!.stages.find(({ id }) => id === 'each')!.each!;
  expect(each).toMatchObject({ maxParallel: ITEMS_WIDTH, list: { kind: 'inline' } });
  expect(each.list.kind === 'inline' ? each.list.items : []).toHaveLength(30);
});
