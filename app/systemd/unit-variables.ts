/** The variables that a unit passes to the stack. Other users can read a unit, so it contains no secret. */
import { dirname, isAbsolute, resolve } from 'node:path';
import { isDatabaseVariable, isStackVariable } from '../../client/embedded/spawn-supervisor.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { Environment } from '../../setup/environment.ts';
import { createUsageError } from '../app-error.ts';

const FOLDERS_OF_USER = /^XDG_(?:STATE|CACHE|CONFIG|DATA)_HOME$/;
/** `_FILE` names the file of a secret. */
const MAY_BE_SECRET = /(?:TOKEN|KEY|SECRET|PASSWORD)S?$/;
const OF_CLIENTS = /^VOIDBOX_(?:SERVER|BIN|TEST_)/;
const PATHS =
  /^(?:XDG_.*|.*_FILE|TEMPORAL_.*_PATH|NODE_EXTRA_CA_CERTS|VOIDBOX_(?:.*_DIR|TEMPORAL_CLI|QEMU|BWRAP|VM|KERNEL|INITRAMFS|SKILLS))$/;

/**
 * @param node  the absolute path of Node, whose folder is in `PATH` too
 * @throws AppError `cli/usage` for `DATABASE_URL`, which may contain a password
 */
export function selectUnitVariables(
  { variables, path }: Pick<Environment, 'variables' | 'path'>,
  { node, cwd }: { readonly node: string; readonly cwd: string },
): Readonly<Record<string, string>> {
  if ((variables['DATABASE_URL'] ?? '') !== '')
    throw createUsageError(
      'DATABASE_URL may contain a password, which other users could read in the unit',
      'Write the address to a file of mode 0600, unset DATABASE_URL, and set DATABASE_URL_FILE to the path.',
    );
  return selectVariables(isForUnit, { variables, path }, { node, cwd });
}

/**
 * The variables of `serve` with your own Temporal server, secrets included: they are for a file that only its user can read.
 * @param node  the absolute path of Node, whose folder is in `PATH` too
 */
export function selectServeVariables(
  env: Pick<Environment, 'variables' | 'path'>,
  place: { readonly node: string; readonly cwd: string },
): Readonly<Record<string, string>> {
  return selectVariables(isForServe, env, place);
}

function selectVariables(
  isSelected: (name: string) => boolean,
  { variables, path }: Pick<Environment, 'variables' | 'path'>,
  { node, cwd }: { readonly node: string; readonly cwd: string },
): Readonly<Record<string, string>> {
  const folders = [dirname(node), ...path.split(':').filter((folder) => isAbsolute(folder))];
  const kept = Object.entries(variables).flatMap(([name, value = '']): [string, string][] =>
    value !== '' && isSelected(name) ? [[name, PATHS.test(name) ? makeAbsolute(value, cwd) : value]] : [],
  );
  return createMapping([...kept, ['PATH', [...new Set(folders)].join(':')]]);
}

function isForServe(name: string): boolean {
  if (FOLDERS_OF_USER.test(name) || name === 'NODE_EXTRA_CA_CERTS' || isDatabaseVariable(name)) return true;
  return /^(?:VOIDBOX|TEMPORAL)_/.test(name) && !OF_CLIENTS.test(name) && name !== 'VOIDBOX_TOKEN';
}

function isForUnit(name: string): boolean {
  if (FOLDERS_OF_USER.test(name) || name === 'NODE_EXTRA_CA_CERTS' || name === 'DATABASE_URL_FILE') return true;
  return name.startsWith('VOIDBOX_') && isStackVariable(name) && !MAY_BE_SECRET.test(name) && !OF_CLIENTS.test(name);
}

/** A list has `:` between its paths. */
function makeAbsolute(value: string, cwd: string): string {
  return value
    .split(':')
    .filter((path) => path !== '')
    .map((path) => resolve(cwd, path))
    .join(':');
}
