/** vitest runs no files of two groups of the same order in one call when they have other limits for their workers. */
import { expect, test } from 'vitest';
import config from '../vitest.config.ts';

interface Group {
  readonly name: string;
  readonly maxWorkers?: number;
  readonly fileParallelism?: boolean;
  readonly sequence?: { readonly groupOrder?: number };
}

test('files of any groups can be named in one call', () => {
  const groups = (config.test?.projects ?? []).map((project) => (project as { readonly test: Group }).test);
  expect(groups.map(({ name }) => name)).toEqual([
    'pure',
    'isolated',
    'process',
    'process-own',
    'server',
    'server-own',
    'vm',
    'vm-own',
    'vm-alone',
    'agents',
    'clock',
    'kvm',
  ]);
  const orderOf = ({ sequence }: Group): number => sequence?.groupOrder ?? 0;
  const workersOf = ({ maxWorkers, fileParallelism }: Group): string => `${maxWorkers} ${fileParallelism}`;
  expect(new Set(groups.map(orderOf)).size).toBeGreaterThan(1);
  for (const group of groups)
    for (const other of groups.filter((candidate) => orderOf(candidate) === orderOf(group)))
      expect(workersOf(other)).toBe(workersOf(group));
});
