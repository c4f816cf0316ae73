/** The text of the systemd user unit that starts the embedded stack. */
import { createHash } from 'node:crypto';
import { createUsageError } from '../app-error.ts';

export const UNIT_NAME = 'voidbox.service';

export interface UnitFacts {
  /** The absolute path of Node. */
  readonly node: string;
  /** The absolute path of the program of the command line. */
  readonly main: string;
  readonly variables: Readonly<Record<string, string>>;
}

const FIRST_LINE = '# Made by `voidbox service install`. Change it with a drop-in: systemctl --user edit voidbox';
const HASH_LINE = '# SHA-256 of the following lines: ';

/**
 * `KillMode=process` leaves the VMs of open runs to their keepers when the unit stops. `OOMPolicy=continue` keeps the
 * stack if the kernel ends one VM for lack of memory.
 * @throws AppError `cli/usage` for a value that a unit cannot contain
 */
export function renderUnit({ node, main, variables }: UnitFacts): string {
  const command = [node, main].map((path) => quoteWord('the path of the program', path.replaceAll('$', '$$$$')));
  const names = Object.keys(variables).toSorted();
  const environment = names.map((name) => `Environment=${quoteWord(name, `${name}=${variables[name]!}`)}`);
  const body = `[Unit]
Description=Voidbox, embedded stack

[Service]
Type=oneshot
RemainAfterExit=yes
${environment.join('\n')}
ExecStart=${command.join(' ')} up
ExecStop=${command.join(' ')} down
Restart=on-failure
RestartSec=30
KillMode=process
OOMPolicy=continue

[Install]
WantedBy=default.target
`;
  return `${FIRST_LINE}\n${HASH_LINE}${hash(body)}\n${body}`;
}

/** `own`: this command wrote it, and no person has changed it since. */
export type UnitOrigin = 'own' | 'foreign';

export function findUnitOrigin(text: string): UnitOrigin {
  const [first, second = '', ...rest] = text.split('\n');
  const isOwn = first === FIRST_LINE && second === `${HASH_LINE}${hash(rest.join('\n'))}`;
  return isOwn ? 'own' : 'foreign';
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Quotes one word of a unit (systemd.syntax(7)). `%` begins a specifier there. */
function quoteWord(what: string, text: string): string {
  if (/\p{Cc}|\p{Surrogate}|\uFFFD/u.test(text))
    throw createUsageError(
      `a unit of systemd cannot contain ${what}: it has a control character, or bytes that are not UTF-8`,
      `Use another value, or unset ${what}.`,
    );
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%')}"`;
}
