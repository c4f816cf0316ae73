import { describe, expect, it } from 'vitest';
import { cpuMsOf } from '../../test/rig/cpu-time.ts';
import { render } from './render.ts';

describe('render', () => {
  it('table takes its columns from the first row or its options, and replaces statuses with icons', () => {
    expect(render.table([])).toBe('');
    expect(render.table([{ a: 1, b: null }, { a: 'x' }])).toBe('| a | b |\n| --- | --- |\n| 1 |  |\n| x |  |');
    expect(
      render.table([{ name: 'ci', status: 'ok', other: 'ok' }], {
        columns: ['status', 'other'],
        statusIcons: { ok: '✅' },
      }),
    ).toBe('| status | other |\n| --- | --- |\n| ✅ | ok |');
    expect(render.table([{ status: 'constructor' }], { statusIcons: {} })).toContain('| constructor |');
  });

  it('defect: nothing in a cell ends it', () => {
    expect(render.table([{ 'a|b': 'x | y\nz \\| w' }])).toBe('| a\\|b |\n| --- |\n| x \\| y<br>z \\\\\\| w |');
  });

  it('a long run of backslashes in a cell takes no longer than other texts', async () => {
    const rows = [{ a: '\\'.repeat(200_000) }];
    expect(await cpuMsOf(() => expect(render.table(rows)).toContain('| a |'))).toBeLessThan(5_000);
  });

  it('checklist, kv, section and diff', () => {
    expect(
      render.checklist([
        { text: 't', done: true },
        { text: 'u', done: false },
      ]),
    ).toBe('✅ t\n☐ u');
    expect(render.kv({ Name: 'x', 'Long key': 2 })).toBe('Name      x\nLong key  2');
    expect(render.kv({})).toBe('');
    expect(render.section('T', 'b')).toBe('## T\n\nb');
    expect(render.diff('a\nb', 'a\nc\nd')).toBe('--- before\n+++ after\n a\n-b\n+c\n+d');
  });

  it('code is fenced with more ticks than it holds', () => {
    expect(render.code('x()', 'ts')).toBe('```ts\nx()\n```');
    expect(render.code('a\n```\nb')).toBe('````\na\n```\nb\n````');
  });
});
