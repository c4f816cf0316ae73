import { expect, test } from 'vitest';
import { readFileRef, writeFilePayload, writeRefusedPayload } from './file-payload.ts';

const FACTS = { path: 'in/ä "b".csv', sizeBytes: 3, modifiedAtMs: 1_795_996_352_123 };
const REF = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain; charset=utf-8' };

test('the payload of a file has its name, its path, its facts and its artifact', () => {
  const text = writeFilePayload(FACTS, REF);
  expect(JSON.parse(text)).toEqual({
    name: 'ä "b".csv',
    path: 'in/ä "b".csv',
    sizeBytes: 3,
    modifiedAt: '2026-11-29T23:52:32.123Z',
    sha256: REF.sha256,
    artifact: REF,
  });
  expect(readFileRef(text)).toEqual(REF);
});

test('the payload of a refused file has the reason and no artifact', () => {
  const text = writeRefusedPayload(FACTS, 'it is a link');
  expect(JSON.parse(text)).toMatchObject({ name: 'ä "b".csv', problem: 'it is a link' });
  expect(readFileRef(text)).toBeNull();
});

test.each(['', 'null', '[]', '{"artifact":{}}', `{"artifact":{"sha256":"a","sizeBytes":3,"mediaType":"a"}}`])(
  'another text has no artifact: %s',
  (text) => {
    expect(readFileRef(text)).toBeNull();
  },
);
