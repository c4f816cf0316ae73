import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { renderErrorDocs } from './render-docs.ts';

const FILE = new URL('../../docs/reference/errors.md', import.meta.url);

test('docs/reference/errors.md matches the list of codes; UPDATE=1 writes it', () => {
  if (process.env['UPDATE'] === '1') writeFileSync(FILE, renderErrorDocs());
  expect(readFileSync(FILE, 'utf8')).toBe(renderErrorDocs());
});
