/** vitest runs no files of two groups in one call when one of them has a limit of its own for its workers and the same order. */
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
  expect(groups.map(({ name }) => name)).toEqual(['pure', 'process', 'server', 'vm']);
  const orderOf = ({ sequence }: Group): number => sequence?.groupOrder ?? 0;
  const limited = groups.filter(
    ({ maxWorkers, fileParallelism }) => maxWorkers !== undefined || fileParallelism === false,
  );
  expect(limited.map(({ name }) => name)).toEqual(['server', 'vm']);
  for (const group of limited)
    expect(groups.filter((other) => orderOf(other) === orderOf(group)).map(({ name }) => name)).toEqual([group.name]);
});
