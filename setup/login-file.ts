/**
 * The login of this user: the service that commands use if no variable names one. Its file is in the user's own folder of
 * configuration, never in a working folder, whose author could send commands to another service.
 */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { parseServicePlace, type ServiceSettings } from '../domain/access/service-settings.ts';
import { makeOwnFolder } from './cache/own-folder.ts';
import type { Environment } from './environment.ts';
import { hasCertificate, isTokenText } from './service-settings.ts';
import { SetupError } from './setup-error.ts';

export interface Login {
  /** The text that names the service. */
  readonly server: string;
  /** Null: a Unix socket needs no token. */
  readonly token: string | null;
  /** Certificates (PEM); null: those of Node. */
  readonly ca: string | null;
}

const MOST_BYTES = 1024 * 1024;
/** Permission bits of group and others. */
const OF_OTHERS = 0o077;
const AGAIN = 'Log in again: voidbox logout && voidbox login URL';

/**
 * Adds the service of the login to an environment without a service.
 * @throws SetupError, which never contains the token
 */
export function addLogin(env: Environment): Environment {
  if (env.service !== null) return env;
  const login = readLogin(env);
  if (login === null) return env;
  if (env.temporalConfigured)
    throw new SetupError(
      `The login at ${login.server} and ${env.temporalVariables[0]!} name two places for runs.`,
      'End the login, or unset the variable: voidbox logout',
    );
  return { ...env, service: toServiceSettings(login) };
}

/** @throws SetupError for a text that names no service */
export function toServiceSettings({ server, token, ca }: Login): ServiceSettings {
  const place = parseServicePlace(server);
  if ('problem' in place) throw new SetupError(`The server of the login ${place.problem}.`, AGAIN);
  return { name: server, place, token, ca, isLogin: true };
}

/**
 * @returns null without a login
 * @throws SetupError if others can read the file, or if it has another form
 */
export function readLogin({ loginFile: path }: Pick<Environment, 'loginFile'>): Login | null {
  if (path === null) return null;
  let file: number;
  try {
    // A named pipe would never open.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw new SetupError(`The login ${path} cannot be read: ${(error as Error).message}.`, AGAIN);
  }
  try {
    refuseForeignFile(path, file);
    const login = parseLogin(readFileSync(file, 'utf8'));
    if (login === null) throw new SetupError(`The login ${path} is damaged.`, AGAIN);
    return login;
  } finally {
    closeSync(file);
  }
}

/** Another user could have read the token, or could have written the file. */
function refuseForeignFile(path: string, file: number): void {
  const found = fstatSync(file);
  if (!found.isFile() || found.size > MOST_BYTES)
    throw new SetupError(`The login ${path} is not a file of Voidbox.`, AGAIN);
  if (found.uid !== process.getuid?.())
    throw new SetupError(`The login ${path} belongs to another user (uid ${found.uid}).`, `Remove it: rm ${path}`);
  if ((found.mode & OF_OTHERS) !== 0)
    throw new SetupError(
      `Other users can read or change the login ${path}, which has a token.`,
      `Revoke the token if others may have it, and close the file: chmod 600 ${path}`,
    );
}

function parseLogin(text: string): Login | null {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof read !== 'object' || read === null) return null;
  const { version, server, token, ca } = read as Readonly<Record<string, unknown>>;
  if (version !== 1 || typeof server !== 'string' || 'problem' in parseServicePlace(server)) return null;
  if (token !== null && (typeof token !== 'string' || !isTokenText(token))) return null;
  if (ca !== null && (typeof ca !== 'string' || !hasCertificate(ca))) return null;
  return { server, token, ca };
}

/**
 * Writes the login in one step, with mode 0600.
 * @returns the path of the file
 * @throws SetupError
 */
export function writeLogin(env: Pick<Environment, 'loginFile'>, { server, token, ca }: Login): string {
  const path = requireLoginFile(env);
  const folder = dirname(path);
  makeOwnFolder({ path: folder, what: 'folder of configuration', variable: 'XDG_CONFIG_HOME' });
  chmodSync(folder, 0o700);
  const half = join(folder, `.login-${randomBytes(8).toString('hex')}`);
  try {
    const file = openSync(half, 'wx', 0o600);
    try {
      writeFileSync(file, `${JSON.stringify({ version: 1, server, token, ca })}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(half, path);
  } catch (error) {
    rmSync(half, { force: true });
    throw new SetupError(`The login ${path} cannot be written: ${(error as Error).message}.`, `Check ${folder}.`);
  }
  return path;
}

/** Removes the login, also a damaged one. @throws SetupError */
export function removeLogin(env: Pick<Environment, 'loginFile'>): void {
  const path = requireLoginFile(env);
  try {
    rmSync(path, { force: true });
  } catch (error) {
    throw new SetupError(`The login ${path} cannot be removed: ${(error as Error).message}.`, `Remove it: rm ${path}`);
  }
}

function requireLoginFile({ loginFile }: Pick<Environment, 'loginFile'>): string {
  if (loginFile !== null) return loginFile;
  throw new SetupError('There is no folder for a login: HOME is not an absolute path.', 'Set HOME or XDG_CONFIG_HOME.');
}
