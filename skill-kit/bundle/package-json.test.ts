import { expect, test } from 'vitest';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { skill, terminal, z } from '../index.ts';
import { packageJson } from './package-json.ts';

const built = (more: object): Buildable =>
  skill({ name: 'release', entry: 'a', ...more })
    .step('a', { prompt: 'Go.', next: terminal })
    .build();
const written = (more: object, existing: object = {}): unknown =>
  JSON.parse(packageJson(built(more), '1.2.3', existing as Readonly<Record<string, unknown>>));

test('it has the JSON Schema of params, in the form in which a start gives them', () => {
  const params = z.object({ place: z.string(), count: z.number().default(1) });
  expect(written({ params, package: { author: 'Ada', voidbox: { own: 1 } } }, { voidbox: { older: 2 } })).toMatchObject(
    {
      name: 'release',
      version: '1.2.3',
      author: 'Ada',
      voidbox: {
        older: 2,
        own: 1,
        params: {
          type: 'object',
          properties: { place: { type: 'string' }, count: { type: 'number', default: 1 } },
          required: ['place'],
        },
      },
    },
  );
});

test('without params, or with a schema that exports none, nothing of an earlier build is left', () => {
  const foreign = { '~standard': { version: 1, vendor: 'x', validate: (value: unknown) => ({ value }) } };
  for (const params of [undefined, foreign])
    expect(written({ params }, { author: 'Ada', voidbox: { params: { type: 'object' } } })).toEqual({
      author: 'Ada',
      name: 'release',
      version: '1.2.3',
    });
});
