export interface Options {
  server?: string;
  identity?: string;
  accept?: string;
  policy?: string;
  rules?: string;
  trustServerTypes?: boolean;
  sessionPool?: boolean;
}

export interface Config {
  host: string;
  port: number;
  user?: string;
  password?: string;
  database: string;
  options?: string;
  ssl: false;
}

export interface Client {
  config(): Config;
  readonly connectionString: string;
  stop(): Promise<void>;
}

export class PgsealError extends Error {}

export function start(options?: Options): Promise<Client>;
export function version(): string;
