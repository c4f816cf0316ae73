import { expect, test } from 'vitest';
import { compileText } from './load.ts';

function said(sandbox: string, a: string, b: string): readonly string[] {
  const text = `kind: workflow\nname: w\nsandbox: { ${sandbox} }\nworkflow:\n  steps:\n    - { name: a, ${a} }\n    - { name: b, depends_on: [a], ${b} }\n`;
  const { diagnostics } = compileText(text, 's.yaml', { baseDir: '/spec' });
  return diagnostics.map(({ code, severity, line, message }) => `${line} ${severity} ${code}: ${message}`);
}
const agent = (provider: string, more = ''): string => `prompt: hi, llm: { provider: ${provider}${more} }`;
const RUN = 'run: { program: git }';
const OWN = ', sandbox: { image: base }';
const NO_BASE =
  'warning spec/bad-value: the VM of "a" has `image: dev` and not `base`, in which the command line claude does not start';
const TWO =
  '6 error spec/bad-value: agents of the VM of "a" use two model servers of the worker\'s host, at the ports 11434 and 1234, and a VM reaches one of them';

test.each<[string, string, string, readonly string[]]>([
  // `base` is said, and cannot be.
  ['image: base', agent('claude'), RUN, [`3 ${NO_BASE}`]],
  ['image: base', RUN, agent('ollama'), [`3 ${NO_BASE}`]],
  ['', `prompt: hi${OWN}`, RUN, [`6 ${NO_BASE}`]],
  ['image: base', agent('codex'), RUN, []],
  ['image: base', RUN, RUN, []],
  ['image: dev', agent('claude'), RUN, []],
  ['image: ./root', agent('claude'), RUN, []],
  ['memory_mb: 1024', agent('claude'), RUN, []],
  ['image: base, mode: mock', agent('claude'), RUN, []],
  // Two servers of the host in one VM.
  ['', agent('ollama'), agent('lm-studio'), [TWO]],
  ['', agent('ollama'), agent('custom', ', model: m, base_url: "http://localhost:1234"'), [TWO]],
  ['', agent('ollama'), agent('ollama', ', model: m'), []],
  ['', agent('ollama'), agent('custom', ', model: m'), []],
  ['', agent('ollama'), `${agent('lm-studio')}, sandbox: {}`, []],
  ['', agent('ollama'), agent('claude'), []],
  ['services: { llm: "127.0.0.1:9000" }', agent('ollama'), agent('lm-studio'), []],
])('%s | %s | %s', (sandbox, a, b, expected) => {
  expect(said(sandbox, a, b)).toEqual(expected);
});
