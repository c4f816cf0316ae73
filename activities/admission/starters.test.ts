import { expect, test } from 'vitest';
import { createAnyStarters, createMarkedStarters } from './starters.ts';

const OF_TOKEN = { baseDir: '/uploads', allowGit: ['github.com/a'], starter: { kind: 'token', name: 'ci' } };

/** Returns the kinds of starters on your own server, and on the embedded stack. */
async function kindsOf(mark: unknown): Promise<readonly string[]> {
  const marks = { get: () => Promise.resolve(mark) };
  const both = [createAnyStarters(marks), createMarkedStarters(marks)];
  return await Promise.all(both.map(async (starters) => (await starters.starterOf('run')).kind));
}

test.each<[string, unknown, string, string]>([
  ['of a token has its limits', OF_TOKEN, 'token', 'token'],
  ['of the owner has what the worker allows on your own server', { baseDir: '/spec' }, 'any', 'owner'],
  ['without a mark has nothing only on the embedded stack', null, 'any', 'unknown'],
  [
    'of a starter that this build does not know has nothing',
    { ...OF_TOKEN, starter: { kind: 'x' } },
    'unknown',
    'unknown',
  ],
  ['of a token without its folder has nothing', { starter: OF_TOKEN.starter }, 'unknown', 'unknown'],
])('a run %s', async (_what, mark, own, embedded) => {
  expect(await kindsOf(mark)).toEqual([own, embedded]);
});
