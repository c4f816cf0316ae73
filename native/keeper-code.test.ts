import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { errorCodeOfEnd, errorCodeOfKeeper } from './keeper-code.ts';

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
/** The codes of the keeper, read from its source. */
const SAID = [...read('keeper/src/error.rs').matchAll(/Code::\w+ => "([^"]+)"/g)].map((match) => match[1]!);

test('each code that the keeper can say is one of the list, or a bug of its client', () => {
  expect(SAID.length).toBeGreaterThan(10);
  expect(Object.fromEntries(SAID.map((code) => [code, errorCodeOfKeeper(code)]))).toEqual({
    'api/bad-request': null,
    'api/version': 'vm/lost',
    'exec/unknown': null,
    'fence/stale': 'fence/stale',
    'guest/disk-full': 'stage/disk-full',
    'guest/error': 'vm/guest-error',
    'host/disk-full': 'host/disk-full',
    'host/io': 'store/io',
    'host/not-ready': 'host/not-ready',
    'stage/bad-output': 'stage/bad-output',
    'vm/boot-timeout': 'vm/boot-timeout',
    'vm/busy': 'vm/busy',
    'vm/checkpoint-failed': 'vm/checkpoint-failed',
    'vm/checkpoint-unfit': 'vm/checkpoint-unfit',
    'vm/lost': 'vm/lost',
    'vm/no-capacity': 'vm/no-capacity',
    'vm/protocol': 'vm/protocol',
    'vm/refused': 'vm/refused',
  });
});

test('docs/reference/keeper.md lists them all', () => {
  const page = read('../docs/reference/keeper.md');
  expect(SAID.filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
});

test('a VM that has ended is lost, unless its keeper said one of these', () => {
  const more = [...SAID, 'vm/melted', ''].filter((code) => errorCodeOfEnd(code) !== 'vm/lost');
  expect(more.sort()).toEqual(['host/disk-full', 'vm/boot-timeout', 'vm/protocol', 'vm/refused']);
  expect(more.map(errorCodeOfEnd)).toEqual(more);
});
