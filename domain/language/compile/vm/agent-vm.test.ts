import { expect, test } from 'vitest';
import { compileText } from '../../load.ts';

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
  '6 error spec/bad-value: agents of the VM of "a" use two model servers of the worker\'s host, at the ports 11434 and 1234; a VM can reach only one';
const noWay = (line: number, what: string): string =>
  `${line} warning spec/bad-value: \`egress\` of the VM of "a" ${what}, which its agent calls`;
const noAddress = (what: string): string =>
  `6 error spec/bad-value: \`base_url\` of step "a" is ${what}, which is not the URL of a model server`;

test.each<[string, string, string, readonly string[]]>([
  // The spec names `base`, which has no command line of an agent.
  ['image: base', agent('claude'), RUN, [`3 ${NO_BASE}`]],
  ['image: base', RUN, agent('ollama'), [`3 ${NO_BASE}`]],
  ['', `prompt: hi${OWN}`, RUN, [`6 ${NO_BASE}`]],
  ['image: base', agent('codex'), RUN, []],
  ['image: base', RUN, RUN, []],
  ['image: dev', agent('claude'), RUN, []],
  ['image: ./root', agent('claude'), RUN, []],
  ['memory_mb: 1024', agent('claude'), RUN, []],
  ['image: base, mode: mock', agent('claude'), RUN, []],
  // URLs that no program could reach.
  ...['localhost:8080', 'llm.example.com/v1', 'http://h:70000', 'HTTPS://llm.example.com'].map(
    (url): [string, string, string, readonly string[]] => [
      '',
      agent('custom', `, model: m, base_url: "${url}"`),
      RUN,
      [noAddress(JSON.stringify(url))],
    ],
  ),
  [
    '',
    agent('claude', ', base_url: "https://user:secret@llm.example.com"'),
    RUN,
    [noAddress('a URL with a user or password')],
  ],
  // One VM cannot reach two model servers of the host.
  ['', agent('ollama'), agent('lm-studio'), [TWO]],
  ['', agent('ollama'), agent('custom', ', model: m, base_url: "http://localhost:1234"'), [TWO]],
  ['', agent('ollama'), agent('ollama', ', model: m'), []],
  ['', agent('ollama'), agent('custom', ', model: m'), []],
  ['', agent('ollama'), `${agent('lm-studio')}, sandbox: {}`, []],
  ['', agent('ollama'), agent('claude'), []],
  // The egress rules exclude the model.
  ['egress: { allow: [github] }', agent('claude'), RUN, [noWay(3, 'does not allow api.anthropic.com')]],
  ['egress: { allow: [github] }', RUN, agent('codex'), [noWay(3, 'does not allow api.openai.com')]],
  ['egress: none', agent('claude'), RUN, [noWay(3, 'does not allow api.anthropic.com')]],
  ['', `${agent('claude')}, sandbox: { egress: none }`, RUN, [noWay(6, 'does not allow api.anthropic.com')]],
  [
    'egress: { allow: [provider], deny: ["*.anthropic.com"] }',
    agent('claude'),
    RUN,
    [noWay(3, 'denies api.anthropic.com')],
  ],
  [
    'egress: { allow: [provider, "api.anthropic.com:80"] }',
    agent('custom', ', model: m, base_url: "https://llm.example.com"'),
    RUN,
    [],
  ],
  [
    'egress: { allow: ["llm.example.com:8443"] }',
    agent('custom', ', model: m, base_url: "https://llm.example.com"'),
    RUN,
    [noWay(3, 'does not allow llm.example.com')],
  ],
  ['egress: { allow: [provider, github] }', agent('codex'), agent('claude'), []],
  ['egress: { allow: ["*.anthropic.com"] }', agent('claude'), RUN, []],
  // Codex needs its other hosts only with a subscription.
  ['egress: { allow: [api.openai.com] }', agent('codex'), RUN, []],
  ['egress: { allow: [198.41.0.0/16] }', agent('claude'), RUN, []],
  ['egress: open', agent('claude'), RUN, []],
  ['egress: none', agent('ollama'), RUN, []],
  ['egress: none', RUN, RUN, []],
  ['egress: none, env: { ANTHROPIC_BASE_URL: "http://x" }', agent('claude'), RUN, []],
  ['egress: none', `${agent('claude')}, env: { https_proxy: "http://p:3128" }`, RUN, []],
  ['egress: none, services: { gateway: "127.0.0.1:9000" }', agent('claude'), RUN, []],
  ['egress: none, mode: mock', agent('claude'), RUN, []],
  ['services: { llm: "127.0.0.1:9000" }', agent('ollama'), agent('lm-studio'), []],
])('%s | %s | %s', (sandbox, a, b, expected) => {
  expect(said(sandbox, a, b)).toEqual(expected);
});

test.each<[string, string, readonly string[]]>([
  ['mode: vmm, vcpus: 33', RUN, ['3 error spec/bad-value: `vcpus: 33`']],
  ['mode: vmm', `${RUN}, sandbox: { vcpus: 64 }`, ['3 error spec/bad-value: `vcpus: 64`']],
  ['mode: vmm, vcpus: 32', RUN, []],
  ['mode: qemu, vcpus: 64', RUN, []],
])('a VM of voidbox-vmm has at most 32 CPUs: %s; %s', (sandbox, step, expected) => {
  const rest = ' is impossible with `mode: vmm`, whose VMs have at most 32 CPUs';
  expect(said(sandbox, step, RUN)).toEqual(expected.map((start) => start + rest));
});
