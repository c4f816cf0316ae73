/** Which Temporal server: your own by `TEMPORAL_*` or a temporal.toml profile, else the embedded one. */
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { existsSync } from 'node:fs';
import type { Environment } from '../../setup/environment.ts';
import { SetupError } from '../../setup/setup-error.ts';

export interface TemporalAddress {
  readonly address: string;
  readonly namespace: string;
  readonly tls: ConnectionTls | undefined;
  readonly apiKey: string | undefined;
}

/** As every client of Temporal has it. */
const DEFAULT_ADDRESS = 'localhost:7233';

type ConnectConfig = ReturnType<typeof loadClientConnectConfig>;
type ConnectionTls = Exclude<ConnectConfig['connectionOptions']['tls'], null | undefined>;

export function createEmbeddedAddress(address: string, namespace = 'default'): TemporalAddress {
  return { address, namespace, tls: undefined, apiKey: undefined };
}

/**
 * The server that the environment names; null when it names none.
 * @throws SetupError when the profile or its file is missing or can't be read
 */
export function readConfiguredAddress(env: Environment): TemporalAddress | null {
  if (!env.temporalConfigured) return null;
  const config = loadConfig(env);
  const { connectionOptions } = config;
  const { address } = connectionOptions;
  const apiKey = typeof connectionOptions.apiKey === 'string' ? connectionOptions.apiKey : undefined;
  // A key is a secret, so it is sent only to a server that was named.
  if (address === undefined && apiKey !== undefined)
    throw new SetupError(
      'An API key of Temporal is set, and no server that it is for.',
      'Set the server: export TEMPORAL_ADDRESS=HOST:PORT. Or unset TEMPORAL_API_KEY to use the embedded server.',
    );
  return {
    address: address ?? DEFAULT_ADDRESS,
    namespace: config.namespace ?? 'default',
    tls: connectionOptions.tls ?? undefined,
    apiKey,
  };
}

function loadConfig(env: Environment): ConnectConfig {
  const file = env.variables['TEMPORAL_CONFIG_FILE'];
  // The loader treats a missing file as empty, and would silently use localhost.
  if (file && !existsSync(file))
    throw new SetupError(
      `TEMPORAL_CONFIG_FILE names ${file}, which does not exist.`,
      'Fix or unset TEMPORAL_CONFIG_FILE.',
    );
  const variables = Object.fromEntries(
    Object.entries(env.variables).filter((entry): entry is [string, string] => Boolean(entry[1])),
  );
  try {
    return loadClientConnectConfig({ overrideEnvVars: variables });
  } catch (error) {
    const profile = env.variables['TEMPORAL_PROFILE'];
    throw new SetupError(
      `The Temporal configuration cannot be used: ${(error as Error).message}.`,
      `Fix ${file ? `${file}` : 'temporal.toml'}${profile ? ` or TEMPORAL_PROFILE (\`${profile}\`)` : ''}, or name the server: export TEMPORAL_ADDRESS=HOST:PORT`,
      { cause: error },
    );
  }
}

/**
 * Returns the name of a server in records of runs and sessions. They belong to the server that knows them, and a worker
 * or client of another server must not judge them. `target` null: the embedded server.
 */
export function serverIdOf(target: TemporalAddress | null): string {
  return target === null ? 'embedded' : `${target.address}/${target.namespace}`;
}

export function buildConnectionOptions(target: TemporalAddress): {
  address: string;
  tls?: ConnectionTls;
  apiKey?: string;
} {
  return {
    address: target.address,
    ...(target.tls === undefined ? {} : { tls: target.tls }),
    ...(target.apiKey === undefined ? {} : { apiKey: target.apiKey }),
  };
}

export function isLoopback(address: string): boolean {
  return /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?$/.test(address);
}
