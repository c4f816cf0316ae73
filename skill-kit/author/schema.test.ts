import { type } from 'arktype';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { checkMade, checkValue, inputJsonSchema, outputJsonSchema } from './schema.ts';
import type { AnySchema } from '../../domain/step-machine/schema.ts';

const bare: AnySchema = {
  '~standard': {
    version: 1,
    vendor: 'by-hand',
    validate: (value) => (typeof value === 'number' ? { value: value + 1 } : { issues: [{ message: 'not a number' }] }),
  },
};

describe('checkValue', () => {
  it('gives what the schema makes of the value, defaults and transforms applied', () => {
    expect(
      checkValue(z.object({ a: z.string().transform(Number), b: z.number().default(2) }), { a: '1' }, 'x'),
    ).toEqual({ ok: true, value: { a: 1, b: 2 } });
    expect(checkValue(type({ a: 'string.numeric.parse', b: 'number = 2' }), { a: '1' }, 'x')).toEqual({
      ok: true,
      value: { a: 1, b: 2 },
    });
    expect(checkValue(bare, 1, 'x')).toEqual({ ok: true, value: 2 });
  });

  it('says every issue with its path, joined by semicolons', () => {
    expect(checkValue(type({ v: 'string', w: { x: 'number' } }), { v: 1, w: { x: 'y' } }, 'x')).toEqual({
      ok: false,
      message: 'v: v must be a string (was a number); w.x: w.x must be a number (was a string)',
    });
    const zod = checkValue(z.object({ list: z.array(z.string()), n: z.number() }), { list: [1], n: 'x' }, 'x');
    expect(zod).toMatchObject({ ok: false, message: expect.stringMatching(/^list\.0: .+; n: .+/) as unknown });
    expect(checkValue(bare, 'x', 'x')).toEqual({ ok: false, message: 'not a number' });
  });

  it('refuses an asynchronous schema, naming the place and the remedy', () => {
    const schema = z.string().refine(async () => Promise.resolve(true));
    expect(() => checkValue(schema, 'x', 'step "a": response')).toThrow(
      /^step "a": response: the schema \(zod\) validates asynchronously.*action/,
    );
  });
});

describe('checkMade', () => {
  it.each([
    ['ArkType', type({ 'a?': 'string', list: type({ 'b?': 'number' }).array() })],
    ['zod', z.object({ a: z.string().optional(), list: z.array(z.object({ b: z.number().optional() })) })],
  ])('%s: a key whose value is undefined is absent', (_library, schema: AnySchema) => {
    expect(checkMade(schema, { a: undefined, list: [{ b: undefined }, { b: 1 }] }, 'x')).toStrictEqual({
      ok: true,
      value: { list: [{}, { b: 1 }] },
    });
  });

  it('removes nothing else, and does not change a value without need', () => {
    const seen: unknown[] = [];
    const spy: AnySchema = {
      '~standard': { version: 1, vendor: 'by-hand', validate: (value) => (seen.push(value), { value }) },
    };
    const [whole, dated] = [{ a: [{ b: null }] }, { at: new Date(0), gone: undefined }];
    checkMade(spy, whole, 'x');
    checkMade(spy, dated, 'x');
    expect(seen[0]).toBe(whole);
    expect((seen[1] as typeof dated).at).toBe(dated.at);
    expect(Object.keys(dated)).toEqual(['at', 'gone']);
  });
});

describe('inputJsonSchema', () => {
  it('null schema for morphs: transforms are described by what goes in', () => {
    expect(inputJsonSchema(type({ n: 'string.numeric.parse' }))).toMatchObject({
      properties: { n: { type: 'string' } },
      required: ['n'],
    });
    expect(inputJsonSchema(type('string').pipe((text) => text.length))).toMatchObject({ type: 'string' });
    expect(inputJsonSchema(z.object({ n: z.string().transform(Number) }))).toMatchObject({
      properties: { n: { type: 'string' } },
    });
  });

  it('keeps defaults, and does not ask for what has one', () => {
    for (const schema of [
      type({ a: 'number = 3', b: 'string' }),
      z.object({ a: z.number().default(3), b: z.string() }),
    ]) {
      const json = inputJsonSchema(schema);
      expect(json).toMatchObject({ properties: { a: { type: 'number', default: 3 } }, required: ['b'] });
      expect(json).not.toHaveProperty('additionalProperties');
    }
    // A transform beside it must not send the whole schema another way, on which defaults are lost.
    expect(inputJsonSchema(type({ n: 'string.numeric.parse', a: 'number = 3' }))).toMatchObject({
      properties: { a: { default: 3 } },
      required: ['n'],
    });
  });

  it('says the rest when one property cannot be expressed', () => {
    for (const schema of [type({ when: 'Date', name: 'string' }), z.object({ when: z.date(), name: z.string() })]) {
      expect(inputJsonSchema(schema)).toMatchObject({ properties: { when: {}, name: { type: 'string' } } });
    }
  });

  it('is null for a library without JSON Schema', () => {
    expect(inputJsonSchema(bare)).toBeNull();
    expect(outputJsonSchema(bare)).toBeNull();
  });

  it('differs from the output if the schema has a transform', () => {
    const schema = z.object({ n: z.string().pipe(z.coerce.number()) });
    expect(inputJsonSchema(schema)).toMatchObject({ properties: { n: { type: 'string' } } });
    expect(outputJsonSchema(schema)).toMatchObject({ properties: { n: { type: 'number' } } });
  });
});
