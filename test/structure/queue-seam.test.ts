/** Only a service that reads a queue loads the client of its broker. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { importGraph, pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
const CLIENT = /^app\/sources\/queue\/nats\//;
const NOT_PRODUCT = /\.test\.ts$|^(?:test|bench|examples)\//;

const sources = new Map(
  pathsOf(ROOT)
    .filter((path) => path.endsWith('.ts') && !NOT_PRODUCT.test(path))
    .map((path) => [path, readFileSync(join(ROOT, path), 'utf8')] as const),
);

test('only the files of its folder import the client of a broker', () => {
  const users = [...sources].filter(([, text]) => /from '@nats-io\//.test(text)).map(([path]) => path);
  expect(users).toContain('app/sources/queue/nats/open-nats.ts');
  expect(users.filter((path) => !CLIENT.test(path))).toEqual([]);
});

test('no file imports that folder before a queue is opened', () => {
  const early = [...sources].flatMap(([path, text]) =>
    CLIENT.test(path) || !/^import [^;]*sources\/queue\/nats\/|^export [^;]*sources\/queue\/nats\//m.test(text)
      ? []
      : [path],
  );
  expect(early).toEqual([]);
  const late = [...importGraph(sources)].filter(
    ([path, targets]) => !CLIENT.test(path) && targets.some((each) => CLIENT.test(each)),
  );
  expect(late.map(([path]) => path)).toEqual(['app/deliveries/trigger-service.ts']);
});
