# Loaded (PERL5OPT) into the Perl of those TAP files that type physical replication commands into psql.
#
# The connection string that such a file itself asks of a server carries a receiver token, as an operator who wants clear
# pages in his psql gets it from pgseal. Those that PostgreSQL's helpers put into standbys and programs carry none.
package GrantedPerl;

use strict;
use warnings;

no warnings 'redefine';

if ($0 =~ /\.pl$/)    # not prove
{
    require PostgreSQL::Test::Cluster;
    my $connstr = \&PostgreSQL::Test::Cluster::connstr;
    *PostgreSQL::Test::Cluster::connstr = sub {
        my $plain = $connstr->(@_);
        return $plain if caller ne 'main';
        my @grant = ($ENV{PGSEAL_BIN}, 'receiver', 'grant', '-D', $_[0]->data_dir, '--role', scalar(getpwuid($<)));
        open(my $out, '-|', @grant, '--until', '1h') or die "pgseal is not run: $!\n";
        chomp(my $token = <$out> // '');
        close($out) or die "pgseal grants no token\n";
        return "$plain options='-c pgseal.receiver=$token'";
    };
}

1;
