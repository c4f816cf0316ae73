import { expect, test } from 'vitest';
import { dataRefOf } from './values.ts';

const REF = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' };

test('a ref keeps the changes of redaction, and no other field', () => {
  const redacted = { variables: ['KEY'], breaksJson: true };
  expect(dataRefOf({ ...REF, redacted: { ...redacted, more: 1 }, more: 2 })).toEqual({ ...REF, redacted });
  expect(dataRefOf({ ...REF, more: 2 })).toEqual(REF);
});

test.each([
  null,
  'KEY',
  { variables: ['KEY'] },
  { variables: 'KEY', breaksJson: true },
  { variables: [1], breaksJson: true },
  { variables: ['K'.repeat(257)], breaksJson: true },
  { variables: Array.from({ length: 9 }, () => 'KEY'), breaksJson: true },
])('a ref with the invalid redaction %j is refused', (redacted) => {
  expect(dataRefOf({ ...REF, redacted })).toBeNull();
});
