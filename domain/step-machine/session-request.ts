/** The argument that a session is started with: any client of the server may write it. */
import { CodedError } from '../errors/coded-error.ts';
import { isSha256Beginning } from '../units/sha256.ts';
import { isPlain } from './deep-merge.ts';
import type { Handshake } from './definition.ts';

const MOST_CHARACTERS = 256;
const MOST_TOOLS = 1_000;
/** Levels of nested sub-skills. */
const MOST_LEVELS = 32;

/** The type that `activities/contract-session.ts` calls SessionRequest. */
interface GivenRequest {
  readonly skill: string;
  readonly version?: string;
  readonly codeHash?: string;
  readonly subskill?: string;
  readonly opener?: string;
  readonly path?: readonly string[];
  readonly handshake?: Partial<Handshake>;
}

/** Returns the same value. @throws CodedError `skill/params` naming what is wrong with it */
export function parseSessionRequest<T extends GivenRequest>(given: T): T {
  const request: unknown = given;
  if (!isPlain(request) || !isName(request['skill']))
    throw wrong('a session is started with an object that names its skill: { "skill": "NAME" }');
  const { version, codeHash, subskill, opener, path, handshake } = request as Readonly<
    Record<keyof GivenRequest, unknown>
  >;
  for (const [key, value] of Object.entries({ version, subskill, opener }))
    if (value !== undefined && !isName(value))
      throw wrong(`\`${key}\` is not a string of 1 to ${MOST_CHARACTERS} characters`);
  if (codeHash !== undefined && !(typeof codeHash === 'string' && isSha256Beginning(codeHash)))
    throw wrong('`codeHash` is not 8 to 64 hexadecimal digits');
  if (path !== undefined && !isListOfNames(path, MOST_LEVELS))
    throw wrong(`\`path\` is not a list of at most ${MOST_LEVELS} names of sub-skills`);
  if (handshake !== undefined) checkHandshake(handshake);
  return given;
}

function checkHandshake(handshake: unknown): void {
  if (!isPlain(handshake)) throw wrong('`handshake` is not an object');
  const { host, toolsAvailable, isSubagent } = handshake as Readonly<Record<keyof Handshake, unknown>>;
  if (host !== undefined && !isName(host))
    throw wrong(`\`handshake.host\` is not a string of 1 to ${MOST_CHARACTERS} characters`);
  if (toolsAvailable !== undefined && !isListOfNames(toolsAvailable, MOST_TOOLS))
    throw wrong(`\`handshake.toolsAvailable\` is not a list of at most ${MOST_TOOLS} names`);
  if (isSubagent !== undefined && typeof isSubagent !== 'boolean')
    throw wrong('`handshake.isSubagent` is neither true nor false');
}

function isListOfNames(value: unknown, most: number): boolean {
  return Array.isArray(value) && value.length <= most && value.every(isName);
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= MOST_CHARACTERS;
}

function wrong(message: string): CodedError {
  return new CodedError('skill/params', message);
}
