import { expect, test } from 'vitest';
import { compileText } from '../load.ts';

function said(sandbox: string, work = 'run: { program: git }'): readonly string[] {
  const text = `kind: workflow\nname: w\nsandbox: { ${sandbox} }\nworkflow:\n  steps:\n    - { name: a, ${work} }\n    - { name: b, depends_on: [a], ${work} }\n`;
  const { plan, diagnostics } = compileText(text, 's.yaml', { baseDir: '/spec' });
  expect(plan, JSON.stringify(diagnostics)).not.toBeNull();
  return diagnostics.map(({ code, severity, line, message }) => `${line} ${severity} ${code}: ${message}`);
}
const AGENT = 'prompt: hi, llm: { provider: codex }';

test.each<[string, string, readonly string[]]>([
  ['image: dev, memory_mb: 384', 'run: { program: git }', []],
  ['memory_mb: 128', 'run: { program: git }', []],
  ['image: dev, memory_mb: 128, mode: mock', 'run: { program: git }', []],
  ['memory_mb: 512', AGENT, []],
  ['image: dev', AGENT, []],
  [
    'image: dev, memory_mb: 383',
    'run: { program: git }',
    ['6 warning spec/little-memory: the VM of "a" has 383 MiB of memory, and `image: dev` needs 384 or more'],
  ],
  [
    'memory_mb: 511',
    AGENT,
    [
      '6 warning spec/little-memory: the VM of "a" has 511 MiB of memory, and the command line of an agent needs 512 or more',
    ],
  ],
])('%s, %s', (sandbox, work, expected) => {
  expect(said(sandbox, work)).toEqual(expected);
});
