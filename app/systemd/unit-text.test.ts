import { expect, test } from 'vitest';
import {
  findUnitOrigin,
  quoteCommand,
  readServeArguments,
  renderServeUnit,
  renderUnit,
  renderVariablesFile,
} from './unit-text.ts';

const FACTS = { node: '/usr/bin/node', main: '/opt/voidbox/bin/voidbox.js', variables: { PATH: '/usr/bin' } };

test('a unit starts the stack at the login, and leaves VMs to their keepers when it stops', () => {
  expect(renderUnit(FACTS).split('\n').slice(2).join('\n')).toBe(`[Unit]
Description=Voidbox, embedded stack

[Service]
Type=oneshot
RemainAfterExit=yes
Environment="PATH=/usr/bin"
ExecStart="/usr/bin/node" "/opt/voidbox/bin/voidbox.js" up
ExecStop="/usr/bin/node" "/opt/voidbox/bin/voidbox.js" down
Restart=on-failure
RestartSec=30
KillMode=process
OOMPolicy=continue
Delegate=cpu memory
DelegateSubgroup=voidbox

[Install]
WantedBy=default.target
`);
});

test('only the unit that starts VMs may write control groups', () => {
  const serve = renderServeUnit({ ...FACTS, quotedArguments: '', variablesFile: '/serve.env' });
  expect([renderUnit(FACTS), serve].map((unit) => /^Delegate/m.test(unit))).toEqual([true, false]);
});

test('a value stays one word, whatever systemd would read in it', () => {
  const unit = renderUnit({ ...FACTS, main: '/a b/$HOME/%h/"x\\y', variables: { B: 'a "b" %n $X \\n', A: '1' } });
  expect(unit).toContain('Environment="A=1"\nEnvironment="B=a \\"b\\" %%n $X \\\\n"\n');
  expect(unit).toContain('ExecStart="/usr/bin/node" "/a b/$$HOME/%%h/\\"x\\\\y" up\n');
});

test.each(['a\nExecStartPre=/bin/evil', 'a\rb', 'a\0b', 'a\u001bb', 'a\uFFFDb'])(
  'a value with a control character or with wrong bytes is refused by its name',
  (value) => {
    expect(() => renderUnit({ ...FACTS, variables: { VOIDBOX_STATE_DIR: value } })).toThrow(
      'a unit of systemd cannot contain VOIDBOX_STATE_DIR',
    );
  },
);

test('only an unchanged unit of this command is an own one', () => {
  const unit = renderUnit(FACTS);
  expect(findUnitOrigin(unit)).toBe('own');
  for (const other of ['', '\n', '[Unit]\n', unit.slice(0, -1), `${unit}\n`, unit.replace('30', '31'), `\n${unit}`])
    expect(findUnitOrigin(other), other).toBe('foreign');
});

test('a unit of `serve` names the file of its variables, and no variable', () => {
  const quotedArguments = quoteCommand(['--listen', '127.0.0.1:8080', '--token-file', '/a b/$HOME/%h']);
  const unit = renderServeUnit({ ...FACTS, quotedArguments, variablesFile: '/a b/%h/serve.env' });
  expect(unit).toContain('\nEnvironmentFile=/a b/%%h/serve.env\n');
  expect(unit).toContain(
    'ExecStart="/usr/bin/node" "/opt/voidbox/bin/voidbox.js" serve "--listen" "127.0.0.1:8080" "--token-file" "/a b/$$HOME/%%h"\n',
  );
  expect(unit).not.toMatch(/^Environment=/m);
  expect([readServeArguments(unit), readServeArguments(renderUnit(FACTS))]).toEqual([quotedArguments, null]);
  expect(findUnitOrigin(unit)).toBe('own');
});

test('a file of variables keeps each value, and refuses a value with two lines', () => {
  const lines = renderVariablesFile({ B: 'a "b" \\ $X `y` %h', A: '1' }).split('\n');
  expect(lines.slice(1)).toEqual(['A="1"', 'B="a \\"b\\" \\\\ \\$X \\`y\\` %h"', '']);
  expect(() => renderVariablesFile({ DATABASE_URL: 'x\nPATH=/evil' })).toThrow('cannot contain DATABASE_URL');
});
