import { expect, test } from 'vitest';
import { findUnitOrigin, renderUnit } from './unit-text.ts';

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

[Install]
WantedBy=default.target
`);
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
