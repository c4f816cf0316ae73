/** The database servers that the operator of a service allows for outboxes, as HOST or HOST:PORT. */

export interface DatabaseHost {
  /** A name or an IP address, in lower case and without brackets. */
  readonly host: string;
  readonly port: number;
}

export const DEFAULT_DATABASE_PORT = 5432;
const MOST_PORT = 65_535;
const MOST_CHARACTERS = 262;
const FORM = /^(?:\[(?<six>[0-9a-f:.]+)\]|(?<name>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?))(?::(?<port>\d{1,5}))?$/;

/** @returns null for any other text */
export function parseDatabaseHost(text: string): DatabaseHost | null {
  if (text.length > MOST_CHARACTERS) return null;
  const { six, name, port } = FORM.exec(text.toLowerCase())?.groups ?? {};
  const host = six ?? name;
  const number = port === undefined ? DEFAULT_DATABASE_PORT : Number(port);
  return host === undefined || number < 1 || number > MOST_PORT ? null : { host, port: number };
}

export function formatDatabaseHost({ host, port }: DatabaseHost): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
