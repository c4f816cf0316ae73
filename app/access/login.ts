/** The login of this user at a service on another machine. */
import { parseServicePlace } from '../../domain/access/service-settings.ts';
import { ServiceClient } from '../../http/service-client.ts';
import type { Environment } from '../../setup/environment.ts';
import { addLogin, type Login, readLogin, removeLogin, toServiceSettings, writeLogin } from '../../setup/login-file.ts';
import { isTokenText } from '../../setup/service-settings.ts';
import { SetupError } from '../../setup/setup-error.ts';
import { createEnvironmentError, createUsageError } from '../app-error.ts';

export interface LoginFacts {
  readonly server: string;
  /** The version of the service. */
  readonly version: string;
  /** The path of the file that has the login. */
  readonly file: string;
}

/**
 * Requires the text of a service, and returns whether its clients need a token.
 * @throws AppError, which never contains the text, because it may have a password
 */
export function requireServer(server: string): { readonly needsToken: boolean } {
  const place = parseServicePlace(server);
  if (!('problem' in place)) return { needsToken: place.kind === 'tcp' };
  throw createUsageError(`the URL ${place.problem}`, 'Name the service: voidbox login https://HOST:PORT');
}

/** @throws AppError, which never contains the text */
export function requireToken(text: string | null): string {
  const token = text?.trim() ?? '';
  if (token === '')
    throw createUsageError(
      'no token was entered',
      'Enter the line that `voidbox token create` printed, or pipe it: voidbox login URL --token-stdin < FILE',
    );
  if (!isTokenText(token))
    throw createUsageError(
      'the input is not the text of a token',
      'Enter the line that `voidbox token create` printed, and nothing else.',
    );
  return token;
}

/**
 * Asks the service whether it accepts the token, and then stores both.
 * @throws ServiceError, SetupError; nothing is stored then
 */
export async function createLogin(login: Login, env: Pick<Environment, 'loginFile'>): Promise<LoginFacts> {
  const client = new ServiceClient(toServiceSettings(login));
  try {
    const answer = await client.readJson({ path: ['version'] });
    const { version, api } = (answer ?? {}) as Readonly<Record<string, unknown>>;
    if (api !== 'v1' || typeof version !== 'string')
      throw createEnvironmentError(
        'cli/no-service',
        `${login.server} does not have the HTTP API of Voidbox`,
        'Check the URL, and a proxy in front of the service.',
      );
    return { server: login.server, version: version.slice(0, 100), file: writeLogin(env, login) };
  } finally {
    client.close();
  }
}

/** @returns the service of the ended login; null without a login, or if its file was damaged */
export function endLogin(env: Pick<Environment, 'loginFile'>): string | null {
  const server = readEndedServer(env);
  removeLogin(env);
  return server;
}

/** A file that cannot be read is removed too. */
function readEndedServer(env: Pick<Environment, 'loginFile'>): string | null {
  try {
    return readLogin(env)?.server ?? null;
  } catch (error) {
    if (error instanceof SetupError) return null;
    throw error;
  }
}

/** The place where commands find runs, and why. */
export interface RunsPlace {
  /** The service; null: this machine, or your own Temporal server. */
  readonly server: string | null;
  readonly from: 'VOIDBOX_SERVER' | 'login' | 'TEMPORAL' | 'this machine';
  /** The service of the login, also if a variable names another one. */
  readonly login: string | null;
  /** The file of the login; null without a login. */
  readonly file: string | null;
}

/** @throws SetupError for a login that no command can use */
export function findRunsPlace(env: Environment): RunsPlace {
  const login = readLogin(env)?.server ?? null;
  const stored = { login, file: login === null ? null : env.loginFile };
  if (env.service !== null) return { server: env.service.name, from: 'VOIDBOX_SERVER', ...stored };
  const used = addLogin(env).service;
  if (used !== null) return { server: used.name, from: 'login', ...stored };
  return { server: null, from: env.temporalConfigured ? 'TEMPORAL' : 'this machine', ...stored };
}
