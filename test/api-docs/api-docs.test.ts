import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { renderApiDocs } from './render.ts';

const FILE = new URL('../../docs/reference/api.md', import.meta.url);

test('docs/reference/api.md matches the docstrings; UPDATE=1 writes it', () => {
  if (process.env['UPDATE'] === '1') writeFileSync(FILE, renderApiDocs());
  expect(readFileSync(FILE, 'utf8')).toBe(renderApiDocs());
});
